"""The form for a question of a tool: which fields a schema gives, and which answer the fields give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from patchbay.web.scripts.answer_forms import MAX_CONTROLS, WHOLE, list_fields, read_fields

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Who", "minLength": 2, "description": "Your name."},
        "seats": {"type": "integer", "minimum": 1, "default": 2},
        "window": {"type": "boolean"},
        "meal": {"type": "string", "oneOf": [{"const": "v", "title": "Vegan"}, {"const": "m", "title": "Meat"}]},
        "days": {"type": "array", "items": {"type": "string", "enum": ["Mon", "Tue"]}},
        "day": {"type": "string", "format": "date"},
        "place": {"type": "object"},
    },
    "required": ["name", "seats"],
}


def sent(**typed: str) -> dict[str, str]:
    """The fields of a sent form, from texts by the names of the properties; a box has its place as `days_1`."""
    places = {key: str(place) for place, key in enumerate(SCHEMA["properties"])}
    parts = [(key.split("_"), text) for key, text in typed.items()]
    return {".".join(["a.1", places[key[0]], *key[1:]]): text for key, text in parts}


def read(**typed: str) -> tuple[Mapping[str, Any], dict[str, str], str]:
    """The answer, the problems by property, and the problem of the whole."""
    content, fields, problem = read_fields(SCHEMA, "a.1", sent(**typed))
    return content, {one.key: one.problem for one in fields if one.problem}, problem


def test_each_type_has_its_control_with_the_default_and_what_the_schema_says() -> None:
    fields = {one.key: one for one in list_fields(SCHEMA, "a.1")}
    assert {key: one.form for key, one in fields.items()} == {
        "name": "line",
        "seats": "number",
        "window": "choice",
        "meal": "choice",
        "days": "boxes",
        "day": "line",
        "place": "text",
    }
    name, seats = fields["name"], fields["seats"]
    assert (name.label, name.hint, name.need) == ("Who", "Your name. length 2 or more", "required")
    assert (seats.value, fields["meal"].options) == ("2", (('"v"', "Vegan"), ('"m"', "Meat")))
    assert len({one.name for one in fields.values()}) == len(fields)


def test_the_answer_has_the_types_of_the_schema_and_no_empty_fields() -> None:
    content, problems, problem = read(
        **{"name": "Ann", "seats": "3", "window": "false", "meal": '"v"', "days_1": "on", "day": ""},
        place='{"row": 4}',
    )
    assert content == {
        "name": "Ann",
        "seats": 3,
        "window": False,
        "meal": "v",
        "days": ["Tue"],
        "place": {"row": 4},
    }
    assert (problems, problem) == ({}, "")


@pytest.mark.parametrize(
    ("typed", "wrong"),
    [
        ({"seats": "3"}, "name"),
        ({"name": "Ann", "seats": ""}, "seats"),
        ({"name": "Ann", "seats": "many"}, "seats"),
        ({"name": "Ann", "seats": "0"}, "seats"),
        ({"name": "A", "seats": "1"}, "name"),
        ({"name": "Ann", "seats": "1", "meal": '"x"'}, "meal"),
        ({"name": "Ann", "seats": "1", "window": "maybe"}, "window"),
        ({"name": "Ann", "seats": "1", "place": "[1]"}, "place"),
    ],
)
def test_a_wrong_answer_names_its_field_and_keeps_what_was_typed(typed: dict[str, str], wrong: str) -> None:
    _, problems, problem = read(**typed)
    assert list(problems) == [wrong] and problem == ""
    _, fields, _ = read_fields(SCHEMA, "a.1", sent(**typed))
    assert {one.key: one.value for one in fields if one.value} == {key: text for key, text in typed.items() if text}


def test_a_problem_of_the_whole_answer_is_told_without_a_field() -> None:
    schema = {**SCHEMA, "not": {"required": ["day"]}}
    _, fields, problem = read_fields(schema, "a.1", sent(name="Ann", seats="1", day="2026-01-31"))
    assert problem and not [one for one in fields if one.problem]


def test_a_program_gives_the_answer_as_json() -> None:
    assert read_fields(SCHEMA, "a.1", {WHOLE: '{"name": "Ann", "seats": 1}'})[::2] == ({"name": "Ann", "seats": 1}, "")
    assert "not JSON" in read_fields(SCHEMA, "a.1", {WHOLE: "{"})[2]
    assert "object" in read_fields({}, "a.1", {WHOLE: "[]"})[2]
    assert "seats" in read_fields(SCHEMA, "a.1", {WHOLE: '{"name": "Ann"}'})[2]


def test_a_schema_with_too_many_fields_is_answered_as_json() -> None:
    many = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(MAX_CONTROLS + 1)}}
    assert [one.name for one in list_fields(many, "a.1")] == [WHOLE]
    content, fields, problem = read_fields(many, "a.1", {WHOLE: '{"p0": 1}'})
    assert "p0" in problem and fields[0].value == '{"p0": 1}' and content == {"p0": 1}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense", "properties": {"a": {"type": "string"}}},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"$ref": "https://far.example/schema"}}},
    ],
)
def test_the_form_of_an_invalid_schema_cannot_be_sent(schema: dict[str, Any]) -> None:
    assert list_fields(schema, "a.1")
    assert "its schema is wrong" in read_fields(schema, "a.1", {"a.1.0": "x"})[2]


@pytest.mark.parametrize("properties", [None, [], {"a": True}, {"a": {"enum": "x", "oneOf": {}, "default": {}}}])
def test_a_strange_schema_fails_nothing(properties: Any) -> None:
    list_fields({"properties": properties, "required": "a"}, "a.1")
