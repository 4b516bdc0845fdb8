"""Text becomes JSON where the schema leaves exactly one reading, and stays text everywhere else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.client.contracts.coercion import coerce_arguments, coerce_record

DEFS = {"$defs": {"n": {"type": "integer"}, "loop": {"type": "array", "items": {"$ref": "#/$defs/loop"}}}}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, "-0", 0),
        ({"type": "integer"}, "5.5", "5.5"),
        ({"type": "integer"}, "05", "05"),
        ({"type": "integer"}, "five", "five"),
        ({"type": "number"}, "5", 5),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "number"}, "NaN", "NaN"),
        ({"type": "number"}, "1e999", "1e999"),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": "boolean"}, "1", "1"),
        ({"type": "null"}, "null", None),
        ({"type": "string"}, "5", "5"),
        ({"type": ["string", "integer"]}, "5", "5"),
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "5", 5),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "5", "5"),
        ({"$ref": "#/$defs/n"}, "5", 5),
        ({"allOf": [{"$ref": "#/$defs/n"}]}, "5", 5),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": ["1", "2"]}, "2", "2"),
        ({"const": 1.0}, "1", 1.0),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, "1", [1]),
        ({"type": "array", "items": {"type": "integer"}}, ["1", "x"], [1, "x"]),
        ({"type": "array"}, "a", ["a"]),
        ({"type": "array"}, "[a", "[a"),
        ({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}, ["1"], [1]),
        ({"type": "object"}, '{"a": [1]}', {"a": [1]}),
        ({"type": "object"}, "{a}", "{a}"),
        ({"type": ["array", "object"]}, "x", "x"),
        ({"$ref": "#/$defs/loop"}, "x", ["x"]),
        ({"$ref": "https://elsewhere.example/schema"}, "5", "5"),
        ({}, "5", "5"),
        (True, "5", "5"),
        ({"type": 7}, "5", "5"),
    ],
)
def test_the_schema_decides(schema: Any, text: str | list[str], value: Any) -> None:
    """JN-C13: coerced by the schema, a string where it is ambiguous, JSON literals for arrays and objects."""
    found = coerce_arguments({"x": text}, {**DEFS, "properties": {"x": schema}})["x"]
    assert found == value and type(found) is type(value)


def test_without_a_schema_everything_stays_as_it_is() -> None:
    """JN-C13: no schema, no property, no guess; `additionalProperties` speaks for properties without one."""
    assert coerce_arguments({"x": "5", "y": ["1"]}, None) == {"x": "5", "y": ["1"]}
    assert coerce_arguments({"x": "5"}, {"type": "object"}) == {"x": "5"}
    assert coerce_arguments({"x": "5"}, {"additionalProperties": {"type": "integer"}}) == {"x": 5}


@pytest.mark.parametrize(
    ("schema", "is_left_out"),
    [
        ({"type": "integer"}, True),
        ({"type": "array"}, True),
        ({"enum": ["fast", "safe"]}, True),
        ({"type": ["string", "null"], "enum": ["fast", None]}, True),
        ({"anyOf": [{"enum": ["fast", "safe"]}, {"type": "null"}], "default": None}, True),
        ({"anyOf": [{"$ref": "#/$defs/pace"}, {"type": "integer"}]}, True),
        ({"$ref": "#/$defs/pace"}, True),
        ({"allOf": [{"$ref": "#/$defs/pace"}]}, True),
        ({"const": "fast"}, True),
        ({"type": "string", "minLength": 1}, True),
        ({"type": "string"}, False),
        ({"type": "string", "minLength": 0}, False),
        ({"enum": ["", "fast"]}, False),
        ({"anyOf": [{"enum": ["fast"]}, {"type": "string"}]}, False),
        ({}, False),
        (True, False),
    ],
)
def test_an_empty_text_is_left_out_where_the_schema_allows_none(schema: Any, is_left_out: bool) -> None:
    """As an empty cell of a table; a required argument stays, and the server judges it."""
    whole = {"$defs": {"pace": {"type": "string", "enum": ["fast", "safe"]}}, "properties": {"x": schema}}
    assert ("x" not in coerce_record({"x": ""}, whole)) is is_left_out
    assert "x" in coerce_record({"x": ""}, {**whole, "required": ["x"]})


def test_a_cyclic_schema_is_read_in_time() -> None:
    levels = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(90)}
    levels["a90"] = {"anyOf": [{"$ref": "#/$defs/a0"}, {"type": "integer"}]}
    assert coerce_arguments({"x": "5"}, {"$defs": levels, "properties": {"x": {"$ref": "#/$defs/a0"}}}) == {"x": 5}
    assert coerce_arguments({"x": "5"}, {"$ref": "#", "properties": {"x": {"$ref": "#/properties/x"}}}) == {"x": "5"}
    levels = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(90)}
    levels["a90"] = {"allOf": [{"type": "string"}]}
    assert coerce_record({"x": ""}, {"$defs": levels, "properties": {"x": {"$ref": "#/$defs/a0"}}}) == {"x": ""}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "array", "#/properties/x", "#", "5", "["]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "anyOf", "allOf", "$ref", "items", "properties", "required", "enum", "x", "const"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(JSON, st.text(max_size=5) | st.sampled_from(["5", "[1]", "{}", "null", "true"]))
def test_coercion_accepts_every_schema(schema: Any, text: str) -> None:
    assert set(coerce_arguments({"x": text}, {"properties": {"x": schema}})) == {"x"}
    assert set(coerce_arguments({"x": text}, schema)) == {"x"}
    assert set(coerce_record({"x": ""}, {"properties": {"x": schema}})) <= {"x"}
