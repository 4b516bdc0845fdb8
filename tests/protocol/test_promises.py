"""A result that breaks the promise of its tool says what was promised, and what came (issue 47 item 7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from patchbay.protocol.results.promises import MAX_SCHEMAS, describe_broken_promise
from tests.hubs import Hub

SOURCE = '''"""Functions that return something else than they say."""

from dataclasses import dataclass
from typing import Literal


@dataclass
class Place:
    name: str


def greet() -> float:
    """Return a text."""
    return "oops"


def several(kind: str) -> int:
    """Return one of several things."""
    if kind == "text":
        return "a"
    if kind == "nothing":
        return None
    if kind == "number":
        return 2.5
    if kind == "flag":
        return True
    if kind == "list":
        return [1]
    if kind == "object":
        return {"a": 1}
    if kind == "bytes":
        return b"\\x89PNG\\r\\n\\x1a\\n"
    return 7


def flag() -> bool:
    """Return a text."""
    return "yes"


def rows() -> list[int]:
    """Return an object."""
    return {"a": 1}


def place() -> Place:
    """Return a text."""
    return "here"


def inner() -> dict[str, int]:
    """Return an object with a wrong value."""
    return {"a": "x"}


def either() -> int | list[int]:
    """Return neither."""
    return "neither"


async def later() -> float:
    """Return a text later."""
    return "late"


def level() -> Literal[1, 2]:
    """Return a text."""
    return "three"
'''
LINES = SOURCE.splitlines()


@pytest.fixture(scope="module", params=["inline", "process"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {
        "odd.py": SOURCE,
        "odd.mcp.json": json.dumps({"auto_discover": True, "isolation": request.param}),
        "lines.sh": "#!/bin/sh\necho one\n",
        "lines.mcp.json": json.dumps({"tools": {"lines": {"outputSchema": {"type": "object", "required": ["a"]}}}}),
    }
    hub = Hub(tmp_path_factory.mktemp(f"promises-{request.param}"), files)
    yield hub
    hub.close()


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(LINES, 1) if text in line)


def say(hub: Hub, tool: str, server: str = "odd", **arguments: Any) -> str:
    result = hub.call(server, tool, arguments, "2026-07-28").result
    assert result["isError"] is True
    return str(result["content"][-1]["text"])


def test_a_text_in_place_of_a_number_is_named_with_its_line(hub: Hub) -> None:
    line = line_of('return "oops"')
    assert say(hub, "greet") == f"greet must return a number (float); it returned the text 'oops' (line {line})"


@pytest.mark.parametrize(
    ("kind", "returned"),
    [
        ("text", "the text 'a'"),
        ("nothing", "nothing (None)"),
        ("number", "the number 2.5"),
        ("flag", "the value true"),
        ("list", "the list [1]"),
        ("object", 'the object {"a":1}'),
        ("bytes", "content of the kind image"),
    ],
)
def test_every_kind_of_result_is_named(hub: Hub, kind: str, returned: str) -> None:
    """A function with several `return` has the line of its `def`."""
    line = line_of("def several")
    promised = "several must return a whole number (int)"
    assert say(hub, "several", kind=kind) == f"{promised}; it returned {returned} (line {line})"


@pytest.mark.parametrize(
    ("tool", "promised", "text"),
    [
        ("flag", "true or false (bool)", 'return "yes"'),
        ("rows", "a list", 'return {"a": 1}'),
        ("place", "an object (dict)", 'return "here"'),
        ("either", "a whole number (int) or a list", 'return "neither"'),
        ("later", "a number (float)", 'return "late"'),
        ("level", "a whole number (int)", 'return "three"'),
    ],
)
def test_every_kind_of_promise_is_named(hub: Hub, tool: str, promised: str, text: str) -> None:
    line = [number for number, each in enumerate(LINES, 1) if each.strip() == text][-1]
    assert say(hub, tool).startswith(f"{tool} must return {promised}; it returned ")
    assert say(hub, tool).endswith(f" (line {line})")


def test_a_wrong_value_inside_keeps_its_place(hub: Hub) -> None:
    line = line_of('return {"a": "x"}')
    expected = f'the result of inner does not fit its outputSchema: a: "x" is not of type "integer" (line {line})'
    assert say(hub, "inner") == expected


def test_the_endpoint_of_all_servers_says_the_same(hub: Hub) -> None:
    result = hub.call("", "odd__greet", {}, "2026-07-28").result
    assert result["content"][-1]["text"] == say(hub, "greet")


def test_a_server_that_is_not_python_has_no_names_of_python(hub: Hub) -> None:
    assert "(dict)" not in say(hub, "lines", "lines")


class CountedSchema(dict[str, Any]):
    """A schema that counts how often its branches are read."""

    readings = 0

    def get(self, key: str, default: Any = None) -> Any:
        CountedSchema.readings += key == "anyOf"
        return super().get(key, default)


@pytest.mark.parametrize("levels", [3, 7])
def test_each_reference_of_a_schema_is_followed_once(levels: int) -> None:
    """Six equal branches at each of eight levels were 1.7 million readings, and 0.9 s."""
    CountedSchema.readings = 0
    named: dict[str, Any] = {
        f"L{level}": CountedSchema(anyOf=[CountedSchema({"$ref": f"#/$defs/L{level + 1}"}) for _ in range(6)])
        for level in range(levels)
    }
    named[f"L{levels}"] = {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/L0"}, {"type": "array"}]}
    schema = CountedSchema({"$ref": "#/$defs/L0", "$defs": named})
    sentence = describe_broken_promise("count", schema, {"content": []}, [], "python")
    assert sentence == "count must return a whole number (int) or a list; it returned nothing (None)"
    assert CountedSchema.readings <= 7 * levels + 1


def test_a_schema_with_very_many_parts_is_not_read_to_its_end() -> None:
    schema = {"anyOf": [{"type": "integer"}] * 2 * MAX_SCHEMAS}
    sentence = describe_broken_promise("count", schema, {"content": []}, [], "python")
    assert sentence == "count must return a structured result; it returned nothing (None)"
