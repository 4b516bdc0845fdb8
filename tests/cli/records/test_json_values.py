"""JSON values out of a stream: one per line, several on one, one over many; what is not a value loses nothing else."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import pytest

from patchbay.cli.records import json_values
from patchbay.cli.records.json_values import read_values

DEEP = {"a": [{"b": 'x{["\\'}, [], {}], "c": None}


def read(text: str | bytes, objects: bool = False) -> tuple[list[Any], list[str]]:
    """Return the values, and the number and beginning of each line that is not a value."""
    told: list[str] = []
    data = text.encode() if isinstance(text, str) else text
    values = list(read_values(io.BytesIO(data), lambda bad: told.append(f"{bad['message']} | {bad['line']}"), objects))
    return values, [row.partition(":")[0] + row[row.index(" | ") :] for row in told]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1}\n\n[2]\n"three"\ntrue\nnull\n-4.5', [{"a": 1}, [2], "three", True, None, -4.5]),
        ('{"a": 1}{"a": 2} 3 [4]"5"\n', [{"a": 1}, {"a": 2}, 3, [4], "5"]),
        (json.dumps(DEEP, indent=2), [DEEP]),
        (json.dumps(DEEP, indent=2) + "\n" + json.dumps([DEEP], indent=4) + "\n7\n", [DEEP, [DEEP], 7]),
        ('{"a": 1} {\n"b": 2} {"c":\r\n3}\n', [{"a": 1}, {"b": 2}, {"c": 3}]),
        ("", []),
    ],
)
def test_values_are_read_as_jq_reads_them(text: str, values: list[Any]) -> None:
    """JN-38, J-F10."""
    assert read(text) == (values, [])


@pytest.mark.parametrize(
    ("text", "values", "told"),
    [
        ('{"a": 1}\nnot json\n{"a": 2}\n', [{"a": 1}, {"a": 2}], ["line 2 | not json"]),
        ('{"a": 1\n{"a": 2}\n{"a": 3}\n', [{"a": 2}, {"a": 3}], ['line 1 | {"a": 1']),
        ('{"a": 1\n{"a": 2}\noh\n', [{"a": 2}], ['line 1 | {"a": 1', "line 3 | oh"]),
        ('[1,\n{"a": 2}\n', [{"a": 2}], ["line 1 | [1,"]),
        ('{"a": "cut\n{"a": 2}\n', [{"a": 2}], ['line 1 | {"a": "cut']),
        ('{"a": 1} oh\n2\n', [2], ['line 1 | {"a": 1} oh']),
        ("NaN\n2\n", [2], ["line 1 | NaN"]),
        ("[" * 100_000 + "\n2\n", [2], [f"line 1 | {'[' * 100}"]),
        ("9" * 5000 + " 1\n2\n", [2], [f"line 1 | {'9' * 100}"]),
        (b'"\xff"\n2\n', [2], ['line 1 | "\ufffd"']),
    ],
)
def test_an_invalid_line_is_reported_and_the_rest_is_read(
    text: str | bytes, values: list[Any], told: list[str]
) -> None:
    """J-F7, J-F8: by its line."""
    assert read(text) == (values, told)


def test_values_that_are_not_objects_are_reported_where_objects_are_required() -> None:
    """J-F7: arguments of a tool are an object."""
    assert read('{"a": 1}\n[2]\n{"b": 3}\n', objects=True) == ([{"a": 1}, {"b": 3}], ["line 2 | [2]"])


def test_a_line_is_given_before_the_next_one_is_there() -> None:
    """J-F9: a pipeline gives what it has."""

    class Slow(io.BytesIO):
        lines = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            self.lines += 1
            return b'{"a": %d}\n' % self.lines

    stream = Slow()
    values = read_values(stream, lambda bad: None)
    assert [next(values), next(values), stream.lines] == [{"a": 1}, {"a": 2}, 2]


def test_many_lines_that_never_make_a_value_take_a_few_looks_each(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    sequence = json_values._parse_values

    def counted(data: bytes) -> list[Any] | None:
        nonlocal looks
        looks += len(data)
        return sequence(data)

    monkeypatch.setattr(json_values, "_parse_values", counted)
    text = "[\n" * 150 + "}\n" + "[\n" * 150
    values, told = read(text)
    assert (values, len(told)) == ([], 301)
    assert looks < 10 * len(text)


def test_long_strings_and_strings_without_end_are_read_once() -> None:
    """THREATS (big inputs): JSON that was escaped twice, a large blob in a value over many lines."""
    blob = {"blob": "x" * 1_000_000}
    tracemalloc.start()
    try:
        assert read(json.dumps(blob, indent=2)) == ([blob], [])
        assert tracemalloc.get_traced_memory()[1] < 30 * len(blob["blob"])
    finally:
        tracemalloc.stop()
    escaped = "{" + '\\"a\\":\\"b\\",' * 50_000 + "}\n"
    assert read(f"{escaped}2") == ([2], [f"line 1 | {escaped[:100]}"])


def test_a_value_beyond_the_limit_is_reported_and_the_next_line_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "MAX_VALUE_BYTES", 100)
    assert read(f'["{"x" * 200}"]\n2\n') == ([2], [f'line 1 | ["{"x" * 98}'])
    assert read("[\n" + "1,\n" * 40 + '2\n]\n{"a": 3}\n')[0][-1] == {"a": 3}
