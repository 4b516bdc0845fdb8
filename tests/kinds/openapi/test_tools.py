"""Operations as tools: arguments, schemas, annotations, and which operations are served (issue 17.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from patchbay.client.openapi.documents import load_api_file
from patchbay.kinds.openapi.configuration import ApiConfiguration, parse_fields
from patchbay.kinds.openapi.tools import ApiTools, LoadedApi, build_tools
from tests.client.peers import unpacked_from_npm
from tests.kinds.openapi.mounting import Json, body, document, operation, parameter

URL = "https://api.example/openapi.json"


def test_every_operation_of_a_public_collection_of_documents_is_a_tool(tmp_path: Path) -> None:
    """17.2: 70 documents of OpenAPI 2.0, 3.0 and 3.1."""
    count = 0
    for path in sorted(unpacked_from_npm("@readme/oas-examples@8.2.2", tmp_path).glob("[23].*/**/*.json")):
        described = load_api_file(path, 1 << 24)
        found = build_tools(LoadedApi("", URL, described.document), ApiConfiguration("shop", URL))
        operations = len(described.read_operations())
        assert len(found.tools) == operations, path
        assert [one.where for one in found.problems] == ([] if operations else ["paths"]), path
        count += len(found.tools)
    assert count == 678


def build(paths: Json, more: Json | None = None, **fields: Any) -> ApiTools:
    found = parse_fields("shop", {"document": URL, **fields}, "the test")
    return build_tools(LoadedApi("", URL, document(paths, **(more or {}))), ApiConfiguration(**found))


def wire(one: Json, method: str = "get", path: str = "/things", more: Json | None = None, **fields: Any) -> Json:
    """The tool of one operation."""
    [tool] = build({path: {method: one}}, more, **fields).tools.values()
    return dict(tool.descriptor.wire)


def test_a_tool_has_the_texts_the_method_and_the_path_of_its_operation() -> None:
    tool = wire(operation(summary="List things", description="All of them.", operationId="list things"))
    assert (tool["name"], tool["title"], tool["description"]) == ("list_things", "List things", "All of them.")
    place = {"method": "GET", "path": "/things", "server": "https://api.example"}
    assert tool["_meta"] == {"io.patchbay/operation": place}


@pytest.mark.parametrize(
    ("method", "hints"),
    [
        ("get", {"readOnlyHint": True}),
        ("head", {"readOnlyHint": True}),
        ("post", {"destructiveHint": False, "idempotentHint": False}),
        ("put", {"destructiveHint": True, "idempotentHint": True}),
        ("delete", {"destructiveHint": True, "idempotentHint": True}),
    ],
)
def test_annotations_follow_the_method(method: str, hints: Json) -> None:
    assert wire(operation(), method)["annotations"] == {**hints, "openWorldHint": True}


def test_arguments_have_names_that_every_client_accepts() -> None:
    tool = wire(operation(parameter("filter[name]"), parameter("filter(name)"), parameter("$top"), parameter("top")))
    assert list(tool["inputSchema"]["properties"]) == ["filter_name", "filter_name_2", "top_2", "top"]


def test_the_fields_of_a_body_are_arguments_without_those_that_are_only_answered() -> None:
    schema = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"type": "integer", "readOnly": True}, "name": {"type": "string"}},
    }
    tool = wire(operation(**body(schema, required=True)), "post")
    assert tool["inputSchema"]["properties"] == {"name": {"type": "string"}}
    assert tool["inputSchema"]["required"] == ["name"]


def test_a_configured_parameter_is_not_an_argument() -> None:
    schemes = {"key": {"type": "apiKey", "in": "query", "name": "api_key"}, "user": {"type": "http", "scheme": "basic"}}
    tool = wire(
        operation(
            *(parameter("api_key"), parameter("Authorization", "header"), parameter("X-Tenant", "header")),
            *(parameter("lang"), parameter("q")),
        ),
        more={"components": {"securitySchemes": schemes}},
        credentials={"key": "${KEY}", "user": "${USER}"},
        headers={"x-tenant": "one"},
        query={"lang": "en"},
    )
    assert list(tool["inputSchema"]["properties"]) == ["q"]


@pytest.mark.parametrize(
    ("schema", "media_type", "name"),
    [
        ({"type": "object", "properties": {"f": {"type": "string", "format": "binary"}}}, "multipart/form-data", "f"),
        (
            {"type": "object", "properties": {"f": {"type": "string", "contentMediaType": "image/png"}}},
            "multipart/form-data",
            "f",
        ),
        ({}, "application/octet-stream", "body"),
        ({"type": "string", "format": "binary"}, "image/png", "body"),
    ],
)
def test_a_file_is_an_argument_with_text(schema: Json, media_type: str, name: str) -> None:
    found = wire(operation(**body(schema, media_type)), "post")["inputSchema"]["properties"][name]
    assert found["type"] == "string" and "data: URI, or cid://" in found["description"]


def test_an_output_schema_is_an_object_that_requires_nothing() -> None:
    pet = {
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "integer", "format": "int64"}, "mother": {"$ref": "#/components/schemas/Pet"}},
        "additionalProperties": False,
    }
    more = {"components": {"schemas": {"Pet": pet}}}
    output = wire(operation(answer={"$ref": "#/components/schemas/Pet"}), more=more)["outputSchema"]
    assert output["type"] == "object"
    for answer in ({}, {"id": None}, {"id": 1, "mother": {"id": 2, "mother": None}}, {"other": 1}):
        jsonschema.validate(answer, output, jsonschema.Draft202012Validator)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"id": "one"}, output, jsonschema.Draft202012Validator)


def test_an_operation_that_answers_a_list_has_no_output_schema_and_an_argument_for_pages() -> None:
    tool = wire(operation(answer={"type": "array"}))
    assert "outputSchema" not in tool
    assert "next" in tool["inputSchema"]["properties"]
    assert "next" not in wire(operation(answer={"type": "object"}))["inputSchema"]["properties"]


LISTS: Json = {"type": "object", "properties": {"tags": {"type": "array"}, "name": {"type": "string"}}}
LINKED: Json = {"type": "object", "properties": {"data": {"type": "array"}, "links": {"type": "object"}}}


@pytest.mark.parametrize(
    ("path", "parameters", "answer", "has_next"),
    [
        ("/pets/{id}", [], LISTS, False),
        ("/me", [], LISTS, False),
        ("/pets", [], LISTS, True),
        ("/pets", [], {"type": "object", "properties": {"name": {"type": "string"}}}, False),
        ("/pets/{id}", [parameter("page")], LISTS, True),
        ("/search", [], LINKED, True),
        ("/pets/{id}/toys", [], {"type": "array"}, True),
    ],
)
def test_only_an_operation_that_reads_a_list_has_the_argument_next(
    path: str, parameters: list[Json], answer: Json, has_next: bool
) -> None:
    tool = wire(operation(*parameters, answer=answer), path=path)
    assert ("next" in tool["inputSchema"]["properties"]) is has_next


def test_a_reference_that_is_not_followed_is_a_problem_of_the_server() -> None:
    rows = [{"$ref": "#/components/parameters/none"}]
    found = build({"/a": {"get": operation(*rows)}, "/b": {"get": {"$ref": "other.json"}}, "/c": {"get": operation()}})
    assert list(found.tools) == ["get_c"]
    assert [one.where for one in found.problems] == ["GET /a", "GET /b"]
    assert all(one.reason.startswith("not served: ") for one in found.problems)


def test_the_keywords_of_older_documents_are_those_of_json_schema() -> None:
    old = {"type": "integer", "nullable": True, "minimum": 0, "exclusiveMinimum": True}
    tool = wire(operation({**parameter("n"), "schema": old}))
    assert tool["inputSchema"]["properties"]["n"] == {"type": ["integer", "null"], "exclusiveMinimum": 0}


def test_an_operation_whose_schema_is_wrong_is_served_with_the_names_of_its_arguments() -> None:
    tool = wire(operation({**parameter("n"), "schema": {"type": "int"}, "description": "How many"}))
    assert tool["inputSchema"]["properties"] == {"n": {"description": "How many"}}


def test_a_parameter_of_the_path_that_the_document_forgot_is_a_text() -> None:
    tool = wire(operation(), path="/things/{id}")
    assert tool["inputSchema"]["required"] == ["id"]
    assert tool["inputSchema"]["properties"]["id"] == {"type": "string"}


def test_an_operation_that_cannot_be_read_costs_only_itself() -> None:
    paths = {"/a": {"get": operation()}, "/b": {"get": {"parameters": [{"in": "nowhere"}]}}, "/c": []}
    found = build(paths)
    assert list(found.tools) == ["get_a"]
    assert [one.where for one in found.problems] == ["GET /b", "/c"]
    assert "expected name, and in: one of" in found.problems[0].reason


SELECTED: Json = {
    "/orders": {"get": operation(tags=["orders"]), "post": operation(tags=["orders"])},
    "/orders/{id}": {"get": operation(tags=["orders"]), "delete": operation(tags=["orders", "danger"])},
    "/admin/users": {"get": operation(operationId="adminUsers")},
}


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, ["list_orders", "create_order", "get_order", "delete_order", "adminUsers"]),
        ({"include": {"tags": ["orders"]}}, ["list_orders", "create_order", "get_order", "delete_order"]),
        ({"include": {"tags": ["ord*"], "methods": ["GET"]}}, ["list_orders", "get_order"]),
        ({"include": {"paths": ["/admin/*"]}}, ["adminUsers"]),
        ({"include": {"operations": ["admin*", "get_*"]}}, ["get_order", "adminUsers"]),
        ({"exclude": {"tags": ["danger"], "paths": ["/admin/*"]}}, ["list_orders", "create_order", "get_order"]),
    ],
)
def test_operations_are_selected_by_tag_path_method_and_name(fields: Json, names: list[str]) -> None:
    assert list(build(SELECTED, **fields).tools) == names


def test_a_selection_that_matches_nothing_is_a_problem_with_the_tags_of_the_document() -> None:
    [problem] = build(SELECTED, include={"tags": ["order"]}).problems
    assert problem.where == "include"
    assert problem.reason == (
        "include and exclude select none of the 5 operations of the document; the tags of its operations are danger,"
        " orders"
    )


def test_a_document_without_operations_is_a_problem() -> None:
    [problem] = build({}).problems
    assert (problem.where, problem.reason) == (
        "paths",
        "the document describes no operations, so that this server has no tools",
    )


def test_operations_beyond_the_limit_are_not_served_and_the_page_says_what_to_do() -> None:
    found = build(SELECTED, max_tools=2)
    assert list(found.tools) == ["list_orders", "create_order"]
    assert "3 more operations than 2; narrow them with include and exclude" in found.problems[0].reason


def test_a_credential_for_an_unknown_scheme_is_a_problem_with_the_known_names() -> None:
    more = {"components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X"}}}}
    [problem] = build({"/a": {"get": operation()}}, more, credentials={"kee": "${KEY}"}).problems
    assert (problem.where, problem.reason) == ("credentials.kee", "not used: the document has key")
