"""Schemas of requests and of answers: what only one of them has, branches and discriminators, null."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from patchbay.client.openapi.documents import load_api_file
from patchbay.client.openapi.operations import Api, Operation

Json = dict[str, Any]
ID: Json = {"type": "integer", "readOnly": True}
SECRET: Json = {"type": "string", "writeOnly": True}
NAME: Json = {"type": "string"}
BASE: Json = {"type": "object", "required": ["id", "name"], "properties": {"id": ID, "name": NAME, "secret": SECRET}}


def make_operation(schema: Json, **schemas: Json) -> Operation:
    """An operation that takes and answers values of this schema, in a field `value`."""
    content = {"application/json": {"schema": {"type": "object", "properties": {"value": schema}}}}
    post = {
        "operationId": "x",
        "requestBody": {"required": True, "content": content},
        "responses": {"200": {"content": content}},
    }
    document = {"openapi": "3.0.3", "paths": {"/x": {"post": post}}, "components": {"schemas": schemas}}
    return Api(document, "the test").list_operations()["x"]


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid({"value": value}))


NESTED: list[Json] = [
    BASE,
    {"$ref": "#/components/schemas/Base"},
    {"allOf": [{"$ref": "#/components/schemas/Base"}]},
    {"allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["id"]}]},
    {"allOf": [{"properties": {"id": ID}}, {"$ref": "#/components/schemas/Requiring"}]},
    {"allOf": [{"allOf": [{"properties": {"id": ID, "secret": SECRET}}]}, {"required": ["id", "name"]}]},
    {"properties": {"id": {"$ref": "#/components/schemas/Id"}, "name": NAME, "secret": SECRET}, "required": ["id"]},
    {"properties": {"id": {"allOf": [{"type": "integer"}], "readOnly": True}}, "required": ["id"]},
    {"properties": {"id": ID}, "anyOf": [{"required": ["id"]}, {"required": ["other"]}]},
]


@pytest.mark.parametrize("schema", NESTED)
@pytest.mark.parametrize("is_list", [False, True])
def test_what_only_answers_have_is_not_in_requests_at_any_depth(schema: Json, is_list: bool) -> None:
    requiring = {"required": ["id", "name"], "properties": {"name": NAME}}
    whole = {"type": "array", "items": schema} if is_list else schema
    operation = make_operation(whole, Base=BASE, Id=ID, Requiring=requiring)
    value: Any = {"name": "n", "secret": "s"}
    assert fits(operation.tool["inputSchema"], [value] if is_list else value)
    assert "readOnly" not in str(operation.tool["inputSchema"])


@pytest.mark.parametrize("schema", NESTED[:3])
def test_what_only_requests_have_is_not_in_answers(schema: Json) -> None:
    operation = make_operation(schema, Base={**BASE, "required": ["id", "name", "secret"]})
    assert "secret" not in str(operation.tool["outputSchema"])
    assert fits(operation.tool["outputSchema"], {"id": 1, "name": "n"})
    assert "secret" in str(make_operation(schema, Base=BASE).tool["inputSchema"])


def test_the_default_document_of_drf_spectacular_takes_what_its_api_takes() -> None:
    """drf-spectacular 0.30.0: one schema for requests and answers, which requires what only answers have."""
    path = Path(__file__).parent / "documents" / "drf_spectacular.yaml"
    api = load_api_file(path, 1 << 20)
    operations = api.list_operations()
    assert (len(operations), api.problems) == (12, {})
    create = operations["books_create"].tool
    book = {"title": "T", "secret": "s", "author": 1, "co_authors": [{"name": "A"}]}
    for more in ({}, {"kind": None, "editor": None, "cover": None}, {"kind": "", "editor": {"name": "E"}}):
        jsonschema.validate({**book, **more}, create["inputSchema"], jsonschema.Draft202012Validator)
    assert create["inputSchema"]["required"] == ["secret", "title", "author", "co_authors"] or set(
        create["inputSchema"]["required"]
    ) == {"secret", "title", "author", "co_authors"}
    assert set(create["inputSchema"]["properties"]).isdisjoint({"id", "created", "score", "author_detail"})
    assert "secret" not in create["outputSchema"]["$defs"]["Book"]["properties"]


CAT: Json = {
    "type": "object",
    "required": ["kind"],
    "properties": {"kind": {"type": "string"}, "lives": {"type": "integer"}},
}
DOG: Json = {
    "type": "object",
    "required": ["kind"],
    "properties": {"kind": {"type": "string"}, "lives": {"type": "string"}},
}
BRANCHES = [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]
MAPPING = {"cat": "#/components/schemas/Cat", "dog": "Dog", "puppy": "#/components/schemas/Dog"}


@pytest.mark.parametrize(
    ("mapping", "value", "is_valid"),
    [
        (MAPPING, {"kind": "cat", "lives": 9}, True),
        (MAPPING, {"kind": "cat", "lives": "nine"}, False),
        (MAPPING, {"kind": "puppy", "lives": "one"}, True),
        (MAPPING, {"kind": "cat"}, True),
        (MAPPING, {"kind": "bird"}, False),
        (None, {"kind": "Dog", "lives": "one"}, True),
        (None, {"kind": "Cat", "lives": "one"}, False),
    ],
)
@pytest.mark.parametrize("word", ["oneOf", "anyOf"])
def test_a_discriminator_decides_which_branch_a_value_has_to_fit(
    word: str, mapping: Json | None, value: Json, is_valid: bool
) -> None:
    more = {} if mapping is None else {"mapping": mapping}
    schema = {word: BRANCHES, "discriminator": {"propertyName": "kind", **more}}
    assert fits(make_operation(schema, Cat=CAT, Dog=DOG).tool["inputSchema"], value) is is_valid


def test_a_branch_that_names_its_values_itself_stays_as_it_is() -> None:
    cat = {**CAT, "properties": {"kind": {"const": "cat"}}}
    schema = {"oneOf": BRANCHES[:1], "discriminator": {"propertyName": "kind"}}
    properties = make_operation(schema, Cat=cat).tool["inputSchema"]["properties"]
    assert properties["value"] == {"anyOf": [{"$ref": "#/$defs/Cat"}]}


@pytest.mark.parametrize(
    ("branches", "value", "is_valid"),
    [
        ([{"type": "integer"}, {"type": "number"}], 5, True),
        ([{"type": "integer"}, {"type": "number"}], "five", False),
        ([{"type": "object"}, {"type": "object", "properties": {"a": {}}}], {"a": 1}, True),
    ],
)
def test_a_value_that_fits_two_branches_is_not_refused(branches: list[Json], value: Any, is_valid: bool) -> None:
    assert fits(make_operation({"oneOf": branches}).tool["inputSchema"], value) is is_valid


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "nullable": True},
        {"type": "string", "enum": ["a"], "nullable": True},
        {"enum": ["a"], "nullable": True},
        {"$ref": "#/components/schemas/Word", "nullable": True},
        {"allOf": [{"$ref": "#/components/schemas/Word"}], "nullable": True},
        {"type": "string", "oneOf": [{"$ref": "#/components/schemas/Word"}], "nullable": True},
    ],
)
def test_a_nullable_value_may_be_null_wherever_the_document_says_it(schema: Json) -> None:
    found = make_operation(schema, Word={"type": "string", "enum": ["a"]}).tool["inputSchema"]
    assert fits(found, None) and fits(found, "a") and not fits(found, 5)
