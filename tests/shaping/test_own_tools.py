"""The tools of a mounted server as its own configuration shapes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.config import parse_config
from patchbay.errors import ConfigError
from tests.access.team import new_key, set_grants, team_hub
from tests.client.bad import Handler, Json, serving
from tests.hubs import MODERN, Hub
from tests.kinds.toolset.sets import listed, problems, toolset
from tests.waiting import until

SCHEMA = {
    "type": "object",
    "properties": {"repo_path": {"type": "string"}, "max_count": {"type": "integer"}},
    "required": ["repo_path"],
}
LISTED = [
    {"name": "git_log", "inputSchema": SCHEMA},
    {"name": "history", "inputSchema": {"type": "object"}},
    {"name": "status", "inputSchema": {"type": "object"}},
    {"name": "plain", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": False}},
]
TOOLS = {
    "git_log": {
        "name": "history",
        "description": "The last commits.",
        "arguments": {"repo_path": {"value": "/srv/product"}, "max_count": {"name": "count", "default": 20}},
        "result": "{given: .arguments, tool: .name}",
    },
    "status": {"title": "Status", "max_bytes": 20},
    "plain": {"annotations": {"readOnlyHint": True}},
    "statsu": {"title": "x"},
}


def answer_lists(handler: Handler, body: Json) -> bool:
    if body["method"] == "tools/list":
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": {"tools": LISTED}})
        return True
    return False


def answer_calls(handler: Handler, body: Json) -> None:
    given = {"arguments": body["params"].get("arguments"), "name": body["params"]["name"], "secret": "s3cret"}
    result = {"content": [{"type": "text", "text": json.dumps(given)}], "structuredContent": given}
    handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result})


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with serving() as start:
        mount = {"kind": "upstream", "address": start(answer_calls, answer_lists).url, "era": "legacy", "tools": TOOLS}
        files = {"git.json": json.dumps(mount), "release.json": toolset(tools={"past": "git.history"})}
        found = Hub(tmp_path_factory.mktemp("own"), files).as_operator()
        until(lambda: "history" in found.catalogue.find("git").tools, "the tools of the mount")
        yield found
        found.close()


def test_a_mount_lists_its_tools_as_its_configuration_shapes_them(hub: Hub) -> None:
    found = listed(hub, "git")
    assert set(found) == {"history", "status"}
    assert found["history"]["description"] == "The last commits."
    assert set(found["history"]["inputSchema"]["properties"]) == {"count"}
    assert found["status"]["title"] == "Status"


@pytest.mark.parametrize(("server", "tool"), [("git", "history"), ("release", "past"), ("", "git__history")])
def test_a_shaped_tool_of_a_mount_gives_its_server_the_own_arguments(hub: Hub, server: str, tool: str) -> None:
    result = hub.call(server, tool, {"count": 3}, MODERN).result
    expected = {"given": {"repo_path": "/srv/product", "max_count": 3}, "tool": "git_log"}
    assert result["structuredContent"] == expected and "s3cret" not in json.dumps(result)
    default = hub.call(server, tool, {}, MODERN).result["structuredContent"]["given"]
    assert default == {"repo_path": "/srv/product", "max_count": 20}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("history", {"repo_path": "/etc"}),
        ("history", {"max_count": 3}),
        ("history", {"Repo_Path": "/etc"}),
        ("git_log", {"repo_path": "/etc"}),
        ("plain", {}),
    ],
)
def test_no_call_reaches_the_tool_behind_the_shape(hub: Hub, tool: str, arguments: dict[str, Any]) -> None:
    answer = hub.call("git", tool, arguments, MODERN)
    assert answer.result["isError"] and "s3cret" not in answer.text and "given" not in answer.text


def test_a_long_text_of_a_shaped_tool_is_a_link(hub: Hub) -> None:
    result = hub.call("git", "status", {}, MODERN).result
    assert any(one["type"] == "resource_link" for one in result["content"]) and "structuredContent" not in result


def test_what_cannot_be_shaped_is_not_listed_and_named(hub: Hub) -> None:
    found = problems(hub, "git")
    assert found["tools.history"] == "not listed: another tool has its name"
    assert "is looser than the origin says" in found["tools.plain.annotations.readOnlyHint"]
    assert found["tools.statsu"] == "there is no tool statsu; did you mean status?"


def test_a_denial_of_the_name_at_the_mounted_server_holds_for_the_name_that_the_mount_gives(tmp_path: Path) -> None:
    with serving() as start:
        mount = {"kind": "upstream", "address": start(answer_calls, answer_lists).url, "era": "legacy", "tools": TOOLS}
        sets = {"release.json": toolset(tools={"past": "git.history"}), "outer.json": toolset(include=["release.*"])}
        hub = team_hub(tmp_path, {"git.json": json.dumps(mount), **sets})
        until(lambda: "past" in hub.catalogue.find("outer").tools, "the tools of the mount")
        everything = {"grants": [{"to": ["key:ann"], "may": ["call"], "on": ["git", "release", "outer"]}]}
        denied = {**everything, "denials": [{"to": ["key:ann"], "on": ["*.git_*"]}]}
        ann = new_key(hub, "ann")
        for server, tool in (("git", "history"), ("release", "past"), ("outer", "past"), ("", "git__history")):
            params = {"name": tool, "arguments": {}}
            set_grants(hub, everything)
            assert "/srv/product" in json.dumps(hub.modern(server, "tools/call", params, headers=ann).last), server
            set_grants(hub, denied)
            assert "/srv/product" not in json.dumps(hub.modern(server, "tools/call", params, headers=ann).last), server
        assert {one["name"] for one in hub.modern("git", "tools/list", headers=ann).result["tools"]} == {"status"}
        hub.close()


@pytest.mark.parametrize(
    ("tools", "place", "words"),
    [
        ({"a": {"name": "b"}, "b": {"title": "x"}}, "tools.b.name", "expected another name: a has this one"),
        (
            {"a": {"arguments": {"x": {"value": {"caller": "ids"}}}}},
            "tools.a.arguments.x.value.caller",
            "did you mean id",
        ),
        ({"a": {"from": "git.x"}}, "tools.a", "unknown field from"),
        ({"a": {"function": "x"}}, "tools.a", "unknown field function"),
        ({"a": {}}, "tools.a", "expected"),
    ],
)
def test_a_wrong_shape_is_refused_with_its_place(tools: dict[str, Any], place: str, words: str) -> None:
    for fields in ({"kind": "upstream", "address": "mcp+npx://x"}, {"kind": "openapi", "document": "https://x/a.json"}):
        with pytest.raises(ConfigError) as raised:
            parse_config(json.dumps({**fields, "tools": tools}).encode(), "git.json")
        assert raised.value.path == place and words in raised.value.message


def test_a_tool_of_an_api_is_shaped_as_one_of_a_mount(tmp_path: Path) -> None:
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {
            "/orders": {
                "get": {
                    "operationId": "list_orders",
                    "parameters": [{"name": "shop", "in": "query", "schema": {"type": "string"}}],
                    "responses": {"200": {"description": "ok"}},
                }
            }
        },
    }
    path = tmp_path / "shop.openapi.json"
    path.write_text(json.dumps(document))
    tools = {"list_orders": {"name": "orders", "arguments": {"shop": {"value": "mine"}}}}
    mount = {"kind": "openapi", "document": str(path), "tools": tools}
    hub = Hub(tmp_path / "hub", {"shop.json": json.dumps(mount)}).as_operator()
    until(lambda: "orders" in hub.catalogue.find("shop").tools, "the tools of the API")
    (tool,) = listed(hub, "shop").values()
    assert tool["name"] == "orders" and "shop" not in tool["inputSchema"].get("properties", {})
    assert hub.call("shop", "orders", {"shop": "other"}, MODERN).result["isError"]
    hub.close()
