"""Tools of HTTP APIs list no array as `type`, accept the same values, and keep what is pinned of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.kinds.openapi.standing_api import list_entries
from patchbay.kinds.openapi.type_alternatives import split_types
from tests.hubs import MODERN, Hub
from tests.protocol.test_tools import listed

NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": ["string", "null"], "minLength": 1, "description": "A name.", "default": None},
            {"description": "A name.", "default": None, "anyOf": [{"type": "string", "minLength": 1}, NULL]},
        ),
        ({"type": ["string"], "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": ["string", "null"], "enum": ["a", None]}, {"anyOf": [{"type": "string", "enum": ["a"]}, NULL]}),
        ({"type": ["string", "null"], "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        (
            {"type": ["array", "null"], "items": {"type": ["integer", "null"]}},
            {"anyOf": [{"type": "array", "items": {"anyOf": [{"type": "integer"}, NULL]}}, NULL]},
        ),
        (
            {"type": ["object", "null"], "allOf": [{"required": ["a"]}]},
            {"allOf": [{"required": ["a"]}], "anyOf": [{"type": "object"}, NULL]},
        ),
        (
            {"type": ["string", "null"], "anyOf": [{"minLength": 1}, NULL]},
            {"anyOf": [{"minLength": 1}, NULL], "allOf": [{"anyOf": [{"type": "string"}, NULL]}]},
        ),
        (
            {"properties": {"type": {"default": {"type": ["a", "b"]}}}, "examples": [{"type": ["a", "b"]}]},
            {"properties": {"type": {"default": {"type": ["a", "b"]}}}, "examples": [{"type": ["a", "b"]}]},
        ),
        (True, True),
    ],
)
def test_a_type_array_becomes_alternatives(schema: Any, expected: Any) -> None:
    assert split_types(schema) == expected


KINDS = ["string", "integer", "number", "boolean", "null", "array", "object"]
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, "", "a", "abc"])),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)),
    max_leaves=4,
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "minLength": st.integers(0, 2),
        "minimum": st.integers(-1, 2),
        "maxItems": st.integers(0, 1),
        "required": st.just(["a"]),
        "enum": st.lists(VALUES, min_size=1, max_size=4, unique_by=repr),
        "const": VALUES,
        "not": st.just({"const": "a"}),
        "anyOf": st.just([{"type": "string"}, {"minimum": 1}]),
        "description": st.just("words"),
    },
)
SCHEMAS = st.recursive(
    st.builds(
        lambda kinds, limits: {"type": kinds, **limits},
        st.lists(st.sampled_from(KINDS), min_size=1, unique=True),
        LIMITS,
    ),
    lambda inner: st.builds(
        lambda outer, part: {**outer, "items": part, "properties": {"a": part}, "additionalProperties": part},
        *(inner, inner),
    ),
    max_leaves=3,
)


def has_type_array(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(has_type_array, schema))
    if not isinstance(schema, dict):
        return False
    inner = [value for key, value in schema.items() if key not in ("enum", "const", "default")]
    return isinstance(schema.get("type"), list) or any(map(has_type_array, inner))


@given(SCHEMAS, st.lists(VALUES, max_size=6))
def test_the_same_values_are_valid(schema: dict[str, Any], values: list[Any]) -> None:
    split = split_types(schema)
    jsonschema.Draft202012Validator.check_schema(split)
    assert not has_type_array(split)
    before, after = jsonschema.Draft202012Validator(schema), jsonschema.Draft202012Validator(split)
    for value in values:
        assert before.is_valid(value) == after.is_valid(value), (schema, split, value)


DOCUMENT = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:9/"}],
    "paths": {
        "/items": {
            "post": {
                "operationId": "add",
                "parameters": [
                    {"name": "note", "in": "query", "schema": {"type": "string", "nullable": True, "maxLength": 5}}
                ],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {"size": {"type": "integer", "nullable": True, "enum": [1, 2, None]}},
                            }
                        }
                    }
                },
                "responses": {
                    "200": {
                        "description": "done",
                        "content": {
                            "application/json": {
                                "schema": {"type": "object", "properties": {"id": {"type": "string"}}},
                            }
                        },
                    }
                },
            }
        }
    },
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.openapi.json").write_text(json.dumps(DOCUMENT), "utf-8")
    mount = {"kind": "openapi", "document": str(folder / "shop.openapi.json")}
    hub = Hub(folder / "hub", {"shop.json": json.dumps(mount)})
    yield hub
    hub.close()


def test_the_tools_of_an_api_list_alternatives_and_the_pins_keep_what_they_had(hub: Hub) -> None:
    """Issue 50, wishes: a digest that a release changes would report each operation of each API as changed."""
    (tool,) = listed(hub, "shop", MODERN).values()
    properties = tool["inputSchema"]["properties"]
    assert properties["note"]["anyOf"] == [{"type": "string", "maxLength": 5}, NULL]
    assert properties["size"]["anyOf"] == [{"type": "integer", "enum": [1, 2]}, NULL]
    assert not has_type_array(tool["inputSchema"]) and not has_type_array(tool["outputSchema"])
    pinned = list_entries(hub.catalogue.find("shop").api.build())["tool", tool["name"]]
    assert pinned["inputSchema"]["properties"]["note"]["type"] == ["string", "null"]
    assert pinned["outputSchema"]["properties"]["id"]["type"] == ["string", "null"]


def test_no_shipped_tool_lists_a_type_array(hub: Hub, tmp_path: Path) -> None:
    everything = Hub(tmp_path, enable=("everything", "bash", "claudecode"))
    tools = listed(everything, "", MODERN)
    everything.close()
    found = {name for name, tool in tools.items() if has_type_array(tool["inputSchema"])}
    found |= {name for name, tool in tools.items() if has_type_array(tool.get("outputSchema"))}
    assert found == set() and len(tools) > 20
