"""What a person reads of each kind of record."""

from __future__ import annotations

from typing import Any

import click
import pytest

from patchbay.cli.records.for_people import describe_record, format_json

RESULT = {"type": "tool_result", "tool": "t"}


@pytest.mark.parametrize(
    ("record", "lines"),
    [
        (RESULT | {"text": "a\nb\n"}, ["a\nb"]),
        (RESULT | {"text": "4", "structuredContent": {"result": 4}}, ["4"]),
        (RESULT | {"text": "4", "structuredContent": {"result": 5}}, ["4", '{\n  "result": 5\n}']),
        (RESULT | {"text": "4.50", "structuredContent": {"result": 4.5}}, ["4.50"]),
        (RESULT | {"text": "Hello", "structuredContent": {"result": "Hello"}}, ["Hello"]),
        (RESULT | {"text": "Hello", "structuredContent": {"greeting": "Hello"}}, ["Hello"]),
        (RESULT | {"text": "[1]", "structuredContent": {"result": [1]}}, ["[\n  1\n]"]),
        (RESULT | {"text": '{"a": 1}', "structuredContent": {"a": 1}}, ['{\n  "a": 1\n}']),
        (RESULT | {"text": "One row.", "structuredContent": {"a": 1}}, ["One row.", '{\n  "a": 1\n}']),
        (RESULT | {"text": '{"a": 1, "a": 2}'}, ['{"a": 1, "a": 2}']),
        (RESULT | {"text": "{x}"}, ["{x}"]),
        (RESULT | {"structuredContent": {}}, ["{}"]),
        (RESULT, ["(no content)"]),
        (RESULT | {"blob": "aGVsbG8=", "mimeType": "image/png"}, ["(image/png, 5 bytes; --output PATH saves it)"]),
        (RESULT | {"uri": "file:///a", "text": "x", "mimeType": "text/plain"}, ["file:///a", "x"]),
        (
            RESULT | {"uri": "cid://b", "name": "rest", "mimeType": "text/plain", "size": 9, "description": "More"},
            ["rest: cid://b (text/plain, 9 bytes)", "  More"],
        ),
        (RESULT | {"content": {"type": "new"}}, ['{\n  "type": "new"\n}']),
        (RESULT | {"text": "bad", "isError": True}, ["Error: bad"]),
        (RESULT | {"saved": "shot.png", "bytes": 67}, ["Saved shot.png (67 bytes)"]),
        ({"records": 2, "saved": "all.json", "bytes": 9}, ["Saved all.json (9 bytes)"]),
        ({"type": "prompt_message", "prompt": "p", "role": "user", "text": "Hi"}, ["user:", "Hi"]),
        (
            {"type": "prompt_message", "prompt": "p", "role": "user", "blob": "aGk=", "mimeType": "audio/wav"},
            ["user:", "(audio/wav, 2 bytes)"],
        ),
        (
            {"_error": True, "type": "json_decode_error", "message": "line 1: no", "line": "x"},
            ["Error: line 1: no", "  x"],
        ),
        ({"_error": False}, ['{\n  "_error": false\n}']),
        ({"id": 1}, ['{\n  "id": 1\n}']),
        ("text", ['"text"']),
        (None, ["null"]),
    ],
)
def test_a_record_is_what_a_person_reads_of_it(record: Any, lines: list[str]) -> None:
    assert [click.unstyle(line) for line in describe_record(record)] == lines


def test_only_values_get_colours_not_what_looks_like_one_in_a_string() -> None:
    """A string with a number and a word in it is one string."""
    colored = format_json({"a": "1 true: \\"})
    assert colored.count("\x1b[0m") == 2
    assert click.unstyle(colored) == '{\n  "a": "1 true: \\\\"\n}'
