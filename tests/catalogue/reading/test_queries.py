"""Arguments from a query or a form: the schema gives the type, and refuses text that does not convert."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from patchbay.catalogue.reading.queries import parse_arguments
from patchbay.errors import InvalidParams

INTEGER, STRING, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}
INTEGERS = {"type": "array", "items": INTEGER}


def read(wanted: dict[str, Any], *texts: str, **more: Any) -> Any:
    return parse_arguments([("x", text) for text in texts], {"properties": {"x": wanted}, **more})["x"]


@pytest.mark.parametrize(
    ("wanted", "texts", "value"),
    [
        (INTEGER, ["5"], 5),
        (INTEGER, ["five"], "five"),
        (INTEGER, ['"5"'], '"5"'),
        ({"type": "number"}, ["5"], 5),
        ({"type": "number"}, ["2.5"], 2.5),
        ({"type": "boolean"}, ["true"], True),
        ({"type": "object"}, ['{"a":1}'], {"a": 1}),
        (STRING, ["5"], "5"),
        ({}, ["5"], "5"),
        ({"anyOf": [INTEGER, NULL]}, ["5"], 5),
        ({"anyOf": [INTEGER, NULL]}, ["null"], None),
        ({"type": ["integer", "null"]}, ["5"], 5),
        ({"anyOf": [STRING, INTEGER]}, ["5"], "5"),
        ({"enum": [1, 2]}, ["2"], 2),
        ({"const": "1"}, ["1"], "1"),
        (INTEGERS, ["5"], [5]),
        (INTEGERS, ["5", "6"], [5, 6]),
        (INTEGERS, ["[5,6]"], [5, 6]),
        ({"anyOf": [INTEGERS, NULL]}, ["5", "6"], [5, 6]),
        ({"anyOf": [INTEGERS, NULL]}, ["5"], [5]),
        ({"anyOf": [INTEGERS, NULL]}, ["null"], None),
        ({"type": "array", "items": STRING}, ["[draft]"], ["[draft]"]),
        ({"type": "array", "items": {"anyOf": [INTEGER, NULL]}}, ["1", "null"], [1, None]),
        ({"type": "array"}, ["a", "1"], ["a", "1"]),
        ({"anyOf": [STRING, {"type": "array", "items": STRING}]}, ["a"], "a"),
        ({"anyOf": [STRING, {"type": "array", "items": STRING}]}, ["a", "b"], ["a", "b"]),
        ({"anyOf": [INTEGERS, INTEGER]}, ["5"], 5),
    ],
)
def test_text_becomes_the_type_of_the_schema(wanted: dict[str, Any], texts: list[str], value: Any) -> None:
    """VWR-24: alternatives, repeated names and optional lists are all read."""
    found = read(wanted, *texts)
    assert found == value and type(found) is type(value)


def test_a_reference_inside_the_schema_is_followed() -> None:
    assert read({"$ref": "#/$defs/Size"}, "2", **{"$defs": {"Size": {"enum": [1, 2]}}}) == 2


def test_a_reference_that_leads_nowhere_or_to_itself_leaves_text() -> None:
    assert read({"$ref": "#/$defs/Gone"}, "2") == "2"
    assert read({"$ref": "https://elsewhere.example/schema"}, "2") == "2"
    assert read({"$ref": "#/$defs/A"}, "2", **{"$defs": {"A": {"$ref": "#/$defs/A"}}}) == "2"


def test_a_single_value_given_twice_is_refused_by_name() -> None:
    with pytest.raises(InvalidParams, match="'x' is given more than once"):
        read(INTEGER, "1", "2")


def test_a_name_that_the_schema_does_not_know_stays_text() -> None:
    assert parse_arguments([("y", "1")], {}) == {"y": "1"}


@given(some.lists(some.integers(-(2**53), 2**53), min_size=1))
def test_every_list_of_integers_comes_back(numbers: list[int]) -> None:
    assert read({"anyOf": [INTEGERS, NULL]}, *map(str, numbers)) == numbers
