"""References wherever real documents have them: operations, path items, parameters, sections, files of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.openapi.documents import load_api_file
from patchbay.client.openapi.operations import Api
from patchbay.client.openapi.requests import build_request

Json = dict[str, Any]
LIMIT = 1 << 20
ANSWER: Json = {"responses": {"200": {"description": "done"}}}


def write(folder: Path, files: dict[str, Any]) -> Api:
    """Write the files of a document, and load the one called root.json."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), "utf-8")
    return load_api_file(folder / "root.json", LIMIT)


def test_a_document_whose_operations_and_parameters_are_files_is_whole(tmp_path: Path) -> None:
    """The shape of DigitalOcean's document: each operation is a file, which refers to shared parameters and schemas."""
    get = {
        "operationId": "list",
        "parameters": [{"$ref": "../shared/parameters.json#/limit"}],
        "responses": {"200": {"$ref": "responses/list.json"}},
    }
    post = {
        "operationId": "create",
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "models/thing.json"}}}},
    }
    thing = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "in": {"$ref": "#"}}}
    answer = {"content": {"application/json": {"schema": {"$ref": "../models/thing.json"}}}}
    api = write(
        tmp_path,
        {
            "root.json": {
                "openapi": "3.0.0",
                "paths": {"/things": {"get": {"$ref": "things/list.json"}, "post": {"$ref": "things/create.json"}}},
            },
            "things/list.json": get,
            "things/create.json": post,
            "things/models/thing.json": thing,
            "things/responses/list.json": answer,
            "shared/parameters.json": {"limit": {"$ref": "limit.json"}},
            "shared/limit.json": {"name": "limit", "in": "query", "schema": {"type": "integer"}},
        },
    )
    operations = api.list_operations()
    assert api.problems == {}
    assert operations["list"].tool["inputSchema"]["properties"] == {"limit": {"type": "integer"}}
    assert operations["create"].tool["inputSchema"]["properties"]["name"] == {"type": "string"}
    [definition] = operations["list"].tool["outputSchema"]["$defs"].values()
    assert set(definition["properties"]) == {"name", "in"}


@pytest.mark.parametrize(
    "document",
    [
        {"paths": {"$ref": "paths.json"}},
        {"paths": {"/a": {"$ref": "paths.json#/~1a"}}},
        {"paths": {"/a": {"$ref": "#/x-items/a"}}, "x-items": {"a": {"$ref": "paths.json#/~1a"}}},
        {"paths": {"/a": {"$ref": "paths.json#/~1a", "parameters": [{"$ref": "rows.json#/0"}]}}},
    ],
)
def test_paths_and_path_items_in_files_of_their_own_are_read(tmp_path: Path, document: Json) -> None:
    item = {"parameters": {"$ref": "rows.json"}, "get": {"operationId": "a", **ANSWER}}
    rows = [{"name": "limit", "in": "query", "schema": {"type": "integer"}}]
    api = write(
        tmp_path, {"root.json": {"openapi": "3.1.0", **document}, "paths.json": {"/a": item}, "rows.json": rows}
    )
    operation = api.list_operations()["a"]
    assert api.problems == {}
    assert build_request(operation, "https://h", {"limit": 3}).url == "https://h/a?limit=3"


def test_a_section_of_schemas_in_a_file_of_its_own_is_read(tmp_path: Path) -> None:
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
    files: dict[str, Json] = {
        "root.json": {
            "openapi": "3.1.0",
            "paths": {"/a": {"post": {"operationId": "a", "requestBody": {"$ref": "#/components/requestBodies/b"}}}},
            "components": {"schemas": {"$ref": "schemas.json"}, "requestBodies": {"b": body}},
        },
        "schemas.json": {"Pet": {"properties": {"mother": {"$ref": "#/Pet"}, "owner": {"$ref": "root.json#/x"}}}},
    }
    files["root.json"]["x"] = {"type": "string"}
    api = write(tmp_path, files)
    properties = api.list_operations()["a"].tool["inputSchema"]["properties"]
    assert api.problems == {} and set(properties) == {"mother", "owner"}
    assert properties["owner"] == {"type": "string"}


LOST: list[tuple[Json, str, str]] = [
    ({"get": {"$ref": "none.json"}}, "GET /a", "none.json: expected a readable file"),
    ({"get": {"parameters": [{"$ref": "../outside.json#/x"}]}}, "GET /a", "leads out of the folder"),
    ({"get": {"parameters": [{"$ref": "https://other.example/x.json"}]}}, "GET /a", "leads out of the folder"),
    ({"get": {"parameters": [{"$ref": "#/components/parameters/none"}]}}, "GET /a", "the document has no 'components'"),
    ({"post": {"requestBody": {"$ref": "none.json"}}}, "POST /a", "none.json: expected a readable file"),
    ({"$ref": "none.json"}, "/a", "none.json: expected a readable file"),
    ({"$ref": "#/paths/~1a"}, "/a", "references lead in a circle"),
]


@pytest.mark.parametrize(("item", "place", "reason"), LOST)
def test_an_operation_with_a_reference_that_is_not_followed_is_a_problem_and_no_tool(
    tmp_path: Path, item: Json, place: str, reason: str
) -> None:
    (tmp_path / "outside.json").write_text('{"x": {"name": "x", "in": "query"}}')
    paths = {"/a": item, "/b": {"get": {"operationId": "b"}}}
    api = write(tmp_path / "folder", {"root.json": {"openapi": "3.1.0", "paths": paths}})
    assert list(api.list_operations()) == ["b"]
    [(found, text)] = api.problems.items()
    assert found == place and text.startswith("not served: ") and reason in text


def test_a_schema_with_a_reference_that_is_not_followed_is_a_problem_of_the_document() -> None:
    schema = {"properties": {"a": {"$ref": "#/components/schemas/None"}}}
    post = {"operationId": "x", "requestBody": {"content": {"application/json": {"schema": schema}}}}
    api = Api({"openapi": "3.1.0", "paths": {"/x": {"post": post}}}, "the test")
    assert api.list_operations()["x"].tool["inputSchema"]["properties"] == {"a": {}}
    [(place, reason)] = api.problems.items()
    assert place == "#/components/schemas/None" and reason.startswith("values are not checked: the reference")


def test_files_beside_a_document_are_read_up_to_its_limit(tmp_path: Path) -> None:
    names = [f"part{number}.json" for number in range(5)]
    paths = {f"/{name}": {"$ref": name} for name in names}
    item = {"get": ANSWER, "x-rest": "x" * (LIMIT // 3)}
    api = write(tmp_path, {"root.json": {"openapi": "3.1.0", "paths": paths}, **dict.fromkeys(names, item)})
    assert len(api.list_operations()) == 3
    assert len(api.problems) == 2
    assert all(f"more than {LIMIT} bytes" in reason for reason in api.problems.values())


def test_an_operation_id_that_two_operations_have_costs_neither() -> None:
    paths = {"/a": {"get": {"operationId": "x"}}, "/b": {"get": {"operationId": "x"}}}
    operations = Api({"openapi": "3.1.0", "paths": paths}, "the test").list_operations()
    assert {name: one.path for name, one in operations.items()} == {"x": "/a", "get_b": "/b"}
