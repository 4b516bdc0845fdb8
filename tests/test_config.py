"""The mcps configuration: accepted and refused configurations, error messages, loading and caching."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.cid import cid_of
from patchbay.config import Configs, check_schema, check_uri, parse_config
from patchbay.errors import ConfigError, MissingBlob
from patchbay.store import Blobs, Store


def refusal(config: Any) -> ConfigError:
    data = config if isinstance(config, bytes) else json.dumps(config).encode()
    with pytest.raises(ConfigError) as caught:
        parse_config(data, "echo.mcp.json")
    assert caught.value.where == "echo.mcp.json"
    return caught.value


def mcps(store: Store, **configs: Any) -> bytes:
    return json.dumps(
        {name: {"config_cid": store.blobs.put(json.dumps(config).encode())} for name, config in configs.items()}
    ).encode()


class Counting:
    """Blobs that count how often they are read."""

    def __init__(self, blobs: Blobs) -> None:
        self.blobs = blobs
        self.reads = 0

    def get(self, cid: str) -> bytes:
        self.reads += 1
        return self.blobs.get(cid)


@pytest.mark.parametrize("text", [None, b"", b"  \n", b"{}"])
def test_an_empty_variable_is_not_a_configuration(store: Store, text: bytes | None) -> None:
    """T1.1"""
    loaded = Configs(store.blobs).load_mcps(text)
    assert (loaded.configs, loaded.broken) == ({}, {})


def test_a_valid_variable_is_a_map_of_configurations(store: Store) -> None:
    """T1.2, T1.6, VWR-2"""
    loaded = Configs(store.blobs).load_mcps(mcps(store, echo={"description": "Says it again"}))
    assert dict(loaded.fields("echo")) == {"description": "Says it again"}


@pytest.mark.parametrize("text", [b"{", b"[]", b"5", b"\xff", b'{"a":{},"a":{}}'])
def test_a_broken_variable_is_refused_with_a_sentence(store: Store, text: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^variables/mcps: expected"):
        Configs(store.blobs).load_mcps(text)


def test_a_server_without_an_entry_has_an_empty_configuration(store: Store) -> None:
    """T1.5"""
    assert Configs(store.blobs).load_mcps(mcps(store, echo={})).fields("nobody") == {}


def test_the_transforms_of_a_configuration_are_resolved_with_it(store: Store) -> None:
    """T1.7, V-C9"""
    source = b"def generate_tools(server_name):\n    return []\n"
    loaded = Configs(store.blobs).load_mcps(mcps(store, jq={"tools_transform_cid": store.blobs.put(source)}))
    assert loaded.configs["jq"].transforms == {"tools": source}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"config_cid": "bafkreiaaaa"}, "not a CID"),
        ({"config_cid": cid_of(b"nobody kept this")}, "not in the store"),
        ({}, "config_cid"),
        ("text", "config_cid"),
    ],
)
def test_a_bad_config_cid_takes_down_its_own_server_alone(store: Store, row: Any, expected: str) -> None:
    """T1.8"""
    good = json.loads(mcps(store, echo={"description": "fine"}))
    loaded = Configs(store.blobs).load_mcps(json.dumps({**good, "jq": row}).encode())
    assert set(loaded.configs) == {"echo"}
    assert expected in loaded.broken["jq"]


def test_a_missing_transform_takes_down_its_own_server_alone(store: Store) -> None:
    """T1.8 for nested CIDs"""
    text = mcps(store, echo={}, jq={"tools_transform_cid": cid_of(b"gone")}, date={"tools_transform_cid": "nonsense"})
    loaded = Configs(store.blobs).load_mcps(text)
    assert set(loaded.configs) == {"echo"}
    assert cid_of(b"gone") in loaded.broken["jq"]
    assert "at tools_transform_cid: expected a CID" in loaded.broken["date"]


def test_a_second_load_comes_from_the_cache(store: Store) -> None:
    """T1.9, VWR-18"""
    text = mcps(store, echo={"description": "once"})
    counting = Counting(store.blobs)
    configs = Configs(counting)  # type: ignore[arg-type]
    first = configs.load_mcps(text).configs["echo"]
    assert configs.load_mcps(text).configs["echo"] is first
    assert counting.reads == 1


def test_a_configuration_that_is_not_kept_is_named(store: Store) -> None:
    """T1.8 at the level of one configuration"""
    with pytest.raises(MissingBlob):
        Configs(store.blobs).config(cid_of(b"gone"))


@pytest.mark.parametrize(
    ("config", "path", "expected"),
    [
        ({"tols": {}}, "", "unknown field tols (did you mean tools?)"),
        ([], "", "expected an object; this is an empty array"),
        (b'{"tools": ', "", "it is not JSON"),
        ({"timeout": 0}, "timeout", "expected a number above 0; this is 0"),
        ({"timeout": "3"}, "timeout", 'expected a number; this is "3"'),
        ({"memory": 1.5}, "memory", "expected a whole number"),
        ({"isolation": "thread"}, "isolation", 'expected "inline" or "process"'),
        ({"tools": {"a b": {}}}, "tools", "1 to 128 letters"),
        ({"tools": {"a": {"inputSchema": 5}}}, "tools.a.inputSchema", "expected an object; this is 5"),
        ({"resources": {"a": {"text": ""}}}, "resources.a", "expected the field uri"),
        (
            {"resources": {"a": {"uri": "a:b", "text": "", "blob": ""}}},
            "resources.a",
            "exactly one of text, blob, cid, variable, function, last_output_of; found text and blob",
        ),
        ({"resources": {"a": {"uri": "a:b", "text": "", "cid": "x"}}}, "resources.a", "found text and cid"),
        ({"resources": {"a": {"uri": "a b", "text": ""}}}, "resources.a.uri", "RFC 3986"),
        ({"resource_templates": {"a": {"uriTemplate": "a:{b}"}}}, "resource_templates.a", "the field function"),
        ({"prompts": {"a": {}}}, "prompts.a", "exactly one of messages, function"),
        ({"prompts": {"a": {"messages": []}}}, "prompts.a.messages", "at least 1"),
        ({"prompts": {"a": {"messages": [{"role": "system", "content": ""}]}}}, "prompts.a.messages.0.role", '"user"'),
        ({"kind": "upstream", "url": "https://x"}, "", "unknown field url (did you mean address?); the fields of a"),
        ({"kind": "documents", "folder": "/x"}, "folder", "not allowed for a folder of documents (did you mean root?)"),
        ({"kind": "documents", "place": "/x"}, "", "unknown field place (did you mean root?); the fields of a folder"),
        ({"kind": "openapi", "documnet": "/x"}, "", "unknown field documnet (did you mean document?)"),
        ({"kind": "documents", "root": "/x", "descripton": ""}, "", "descripton (did you mean description?)"),
        ({"kind": "upstream"}, "address", "the address of the server that is mounted"),
        ({"kind": "upstream", "address": "https://x", "prompts": {}}, "prompts", "not allowed for a mounted server"),
        ({"address": "https://x"}, "address", 'only beside "kind": "upstream"'),
        ({"kind": "documents"}, "root", "expected the folder of the documents"),
        ({"kind": "static", "root": "/x"}, "root", 'only beside "kind": "documents"'),
        ({"enabled": "yes"}, "enabled", "expected true or false"),
    ],
)
def test_a_refusal_names_the_place_and_what_was_expected(config: Any, path: str, expected: str) -> None:
    """V-C3, V-C12, DESIGN section 5"""
    problem = refusal(config)
    assert problem.path == path
    assert expected in problem.message


def test_every_field_of_the_plan_is_accepted() -> None:
    """VWR-15 to VWR-17, V-C3, V-C12, T6.6"""
    config = {
        "title": "Echo",
        "description": "Says it again",
        "instructions": "Use it",
        "icons": [{"src": "https://example.org/a.png", "mimeType": "image/png", "sizes": ["48x48"]}],
        "enabled": True,
        "mcp_enabled": True,
        "auto_discover": True,
        "tools": {"echo": {"description": "d", "inputSchema": {"type": "object"}, "argv": ["{message}"], "timeout": 2}},
        "resources": {"last-echo": {"uri": "echo://last", "name": "Last Echo", "last_output_of": "echo"}},
        "resource_templates": {"note": {"uriTemplate": "note://{id}", "function": "note"}},
        "prompts": {"greet": {"arguments": [{"name": "who", "required": True}], "messages": [{"content": "{{who}}"}]}},
        "function": "main",
        "annotations": {"readOnlyHint": True},
        "timeout": 2.5,
        "memory": 256,
        "isolation": "process",
        "limits": {"inline": 10, "read": 10},
        "mask_errors": True,
        "completions": {"greet": {"who": ["Ada", "Alan"]}},
        "tools_transform_cid": cid_of(b"a"),
        "resources_transform_cid": cid_of(b"b"),
        "prompts_transform_cid": cid_of(b"c"),
    }
    assert parse_config(json.dumps(config).encode(), "x") == config


def header(name: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": name, **more}}}


@pytest.mark.parametrize(
    ("schema", "path", "expected"),
    [
        ({"type": "string"}, "s", '"type": "object" at the root'),
        ({}, "s", '"type": "object" at the root'),
        ({"type": "object", "properties": {"a": {"type": "strin"}}}, "s.properties.a.type", "valid JSON Schema"),
        ({"type": "object", "properties": []}, "s.properties", "valid JSON Schema"),
        ({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}, "s.$schema", "2020-12"),
        ({"type": "object", "properties": {"a": {"$ref": "https://evil.example/x"}}}, "s.properties.a.$ref", "begins"),
        ({"type": "object", "allOf": [{"$dynamicRef": "file:///etc/passwd"}]}, "s.allOf.0.$dynamicRef", "begins"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/gone"}}}, "s", "valid JSON Schema"),
        ({"type": "object", "description": "x" * 300_000}, "s", "at most 262144 bytes"),
        (header("tenant_id"), "s.properties.a.x-mcp-header", "letters, digits and hyphens"),
        (header(""), "s.properties.a.x-mcp-header", "letters, digits and hyphens"),
        (header("a b"), "s.properties.a.x-mcp-header", "letters, digits and hyphens"),
        (header(5), "s.properties.a.x-mcp-header", "letters, digits and hyphens"),
        (header("A", type="number"), "s.properties.a.x-mcp-header", "string, integer or boolean"),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": header("A")["properties"]["a"]}}},
            "s.properties.a.items.x-mcp-header",
            'only "properties"',
        ),
        (
            {
                "type": "object",
                "properties": {**header("A")["properties"], "b": {"type": "string", "x-mcp-header": "a"}},
            },
            "s.properties.b.x-mcp-header",
            "a unique header name",
        ),
    ],
)
def test_a_tools_schema_is_checked(schema: dict[str, Any], path: str, expected: str) -> None:
    """S-F8, T4.6, SPEC-DIGEST 1.2 and 6.4, THREATS S19 to S23"""
    with pytest.raises(ConfigError) as caught:
        check_schema(schema, "x.json", "s")
    assert caught.value.path == path
    assert expected in caught.value.expected


def test_a_schema_that_nests_too_deeply_is_refused() -> None:
    """THREATS S22"""
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(80):
        deep = {"type": "object", "properties": {"a": deep}}
    with pytest.raises(ConfigError, match="at most 64 levels"):
        check_schema(deep, "x.json", "s")


def test_a_property_may_be_called_like_a_keyword() -> None:
    """T4.6"""
    check_schema({"type": "object", "properties": {"$ref": {"type": "string"}, "x-mcp-header": {}}}, "x", "s")


def test_headers_of_nested_properties_are_accepted() -> None:
    """SPEC-DIGEST 1.2"""
    check_schema({"type": "object", "properties": {"a": header("Region"), **header("Tenant")["properties"]}}, "x", "s")


@pytest.mark.parametrize("uri", ["echo://last", "urn:isbn:1", "file:///a%20b", "http://[::1]:80/x?y=z#w", "data:,a"])
def test_absolute_uris_are_accepted(uri: str) -> None:
    """T6.6"""
    check_uri(uri, "x", "uri")


@pytest.mark.parametrize(
    "uri", ["", "last", "/last", "echo://a b", "echo://%zz", "é://x", "a://{id}", "a:b#c#d", "1a:b"]
)
def test_anything_else_is_not_a_uri(uri: str) -> None:
    """T6.6"""
    with pytest.raises(ConfigError, match="RFC 3986"):
        check_uri(uri, "x", "uri")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(["tools", "resources", "prompts", "timeout", "icons", "completions", "limits", "kind", "x"])


@given(st.dictionaries(fields, values, max_size=4))
def test_any_configuration_is_accepted_or_refused_with_a_reason(config: dict[str, Any]) -> None:
    """T1.4: nothing but ConfigError ever comes out"""
    try:
        assert parse_config(json.dumps(config).encode(), "x.json") == config
    except ConfigError as problem:
        assert problem.message.startswith("x.json")
        assert problem.expected


def test_an_unknown_field_is_answered_with_the_fields_of_its_kind_alone() -> None:
    said = refusal({"kind": "documents", "folder": "/x"}).expected
    assert "root" in said
    assert not [name for name in ("address", "skills", "isolation", "document,") if name in said]
    said = refusal({"shiny": 1}).expected
    assert "tools" in said
    assert not [name for name in ("address", "root", "credentials") if name in said]
