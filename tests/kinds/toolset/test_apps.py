"""Apps (SEP-1865) in a toolset: a chosen tool has its app, which calls and reads what the toolset has of its server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import Hub
from tests.interaction.peers import NODE, PACKAGES
from tests.kinds.toolset.sets import problems, toolset
from tests.protocol.test_apps import APP, APPS, HTML, SAME_URI, UI, app_call, configuration, definition, tools
from tests.waiting import until

CHOSEN = {
    "include": ["left.refresh", "right"],
    "exclude": ["right.refresh"],
    "tools": {
        "look": "left.show",
        "cut": {"from": "left.show", "result": "."},
        "secret": "left.secret",
        "link": "left.link",
    },
    "resources": ["ui://other/left*"],
}
LEFT, RIGHT = "ui://left/card/view.html", "ui://right/card/view.html"
LINK = """

def link() -> dict:
    return {"type": "resource_link", "uri": "ui://card/view.html", "name": "x"}
"""
OUTER = "ui://desk/left/card/view.html"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {f"{word}.py": definition(word) for word in ("left", "right")}
    files |= {f"{word}.mcp.json": configuration(word) for word in ("left", "right")}
    files["left.py"] += LINK
    fields = json.loads(files["left.mcp.json"])
    files["left.mcp.json"] = json.dumps({**fields, "tools": {**fields["tools"], "link": {}}})
    sets = {
        "desk.json": toolset(**CHOSEN),
        "outer.json": toolset(tools={"again": "desk.refresh", "view": "desk.look"}),
        "bare.json": toolset(include=["left.show"], exclude=["ui://*"]),
    }
    hub = Hub(tmp_path_factory.mktemp("apps"), files | sets)
    yield hub
    hub.close()


def read(hub: Hub, server: str, uri: str, app: str | None = None) -> dict[str, Any]:
    """The first content of a URI, or the error."""
    meta = {APP: app} if app is not None else None
    last = hub.modern(server, "resources/read", {"uri": uri}, APPS, meta).last
    return dict(last["result"]["contents"][0] if "result" in last else {"error": last["error"]["message"]})


def test_a_chosen_tool_has_its_app_under_a_uri_that_names_its_server(hub: Hub) -> None:
    assert problems(hub, "desk") == {}
    found = tools(hub, "desk", APPS)
    assert found["look"]["_meta"]["ui"] == {"resourceUri": LEFT, "prefersBorder": True}
    assert found["show"]["_meta"]["ui"]["resourceUri"] == RIGHT
    for uri, text in ((LEFT, "<p>left"), (RIGHT, "<p>right")):
        content = read(hub, "desk", uri)
        assert (content["uri"], content["text"], content["mimeType"]) == (uri, text, HTML)
    listed = {one["uri"] for one in hub.modern("desk", "resources/list").result["resources"]}
    assert listed == {LEFT, RIGHT, "ui://left/other/left.html"}
    shown = hub.modern("desk", "server/discover", capabilities=APPS).result["capabilities"]["extensions"]
    assert shown[UI] == {}


def test_a_tool_whose_result_is_shaped_and_one_whose_app_is_excluded_have_no_app(hub: Hub) -> None:
    assert "_meta" not in tools(hub, "desk", APPS)["cut"]
    assert "resourceUri" not in json.dumps(tools(hub, "bare", APPS)["show"])
    assert "error" in read(hub, "bare", LEFT) and "error" in read(hub, "bare", SAME_URI)


def test_a_tool_for_apps_only_stays_one_in_a_toolset(hub: Hub) -> None:
    assert "refresh" in tools(hub, "desk", APPS) and "refresh" not in tools(hub, "desk")
    refused = hub.modern("desk", "tools/call", {"name": "refresh", "arguments": {}}).result
    assert refused["isError"] and "is for apps only" in refused["content"][0]["text"]


@pytest.mark.parametrize(
    ("server", "caller"), [("desk", LEFT), ("", OUTER), ("outer", OUTER), ("", "ui://outer/desk/left/card/view.html")]
)
def test_an_app_calls_a_tool_by_its_name_at_the_server_of_the_app(hub: Hub, server: str, caller: str) -> None:
    assert app_call(hub, server, "refresh", caller)["content"][0]["text"] == "left again"


@pytest.mark.parametrize(("name", "said"), [("show", "right"), ("look", "no tool")])
def test_an_app_calls_the_tool_of_its_own_server_where_another_one_has_the_name(hub: Hub, name: str, said: str) -> None:
    found = app_call(hub, "desk", name, RIGHT)["content"][0]["text"]
    assert said in found or "not for this app" in found
    left = app_call(hub, "desk", "look", LEFT)
    assert left["content"][0]["text"] == "left"


@pytest.mark.parametrize("name", ["only_left", "refresh", "look", "left__refresh", "secret"])
def test_an_app_calls_nothing_that_its_toolset_does_not_have_of_its_server(hub: Hub, name: str) -> None:
    assert app_call(hub, "desk", name, RIGHT)["isError"]
    assert app_call(hub, "desk", name, "ui://unknown/card/view.html")["isError"]


def test_a_link_to_an_app_in_a_result_has_the_uri_of_the_toolset(hub: Hub) -> None:
    for server, uri in (("left", SAME_URI), ("desk", LEFT)):
        found = hub.modern(server, "tools/call", {"name": "link", "arguments": {}}, APPS).result
        assert [one["uri"] for one in found["content"] if one["type"] == "resource_link"] == [uri]


def test_an_app_calls_only_tools_whose_visibility_includes_apps(hub: Hub) -> None:
    assert "not for this app" in app_call(hub, "desk", "secret", LEFT)["content"][0]["text"]


def test_an_app_reads_the_pages_that_its_toolset_has_of_its_server(hub: Hub) -> None:
    for uri in ("ui://other/left.html", "ui://left/other/left.html"):
        assert read(hub, "desk", uri, LEFT)["uri"] == uri
        assert "error" in read(hub, "desk", uri, RIGHT)
    for uri in (LEFT, "server://left", "server://"):
        assert "error" in read(hub, "desk", uri, RIGHT)


def test_a_client_that_does_not_name_the_app_reaches_the_only_tool_and_the_only_page_of_a_name(hub: Hub) -> None:
    called = hub.modern("outer", "tools/call", {"name": "refresh", "arguments": {}}, APPS).result
    assert called["content"][0]["text"] == "left again"
    assert read(hub, "outer", SAME_URI)["uri"] == SAME_URI
    assert "error" in read(hub, "desk", SAME_URI), "two servers have this page"
    refused = hub.modern("outer", "tools/call", {"name": "refresh", "arguments": {}}).result
    assert refused["isError"]


@pytest.mark.node
@pytest.mark.parametrize("way", ["named", "unnamed"])
def test_the_app_of_a_package_of_npm_works_through_a_toolset_that_renames_its_tool(tmp_path: Path, way: str) -> None:
    program = PACKAGES / "node_modules/@modelcontextprotocol/server-basic-vanillajs/dist/index.js"
    address = f"mcp+stdio:{NODE} {program} --stdio"
    files = {
        "clock.json": json.dumps({"kind": "upstream", "address": address}),
        "desk.json": toolset(tools={"watch": {"from": "clock.get-time", "description": "The time."}}),
    }
    hub = Hub(tmp_path, files)
    try:
        until(lambda: "watch" in hub.catalogue.find("desk").tools, "the tool of the app")
        uri = tools(hub, "desk", APPS)["watch"]["_meta"]["ui"]["resourceUri"]
        content = read(hub, "desk", uri)
        assert content["uri"] == uri and "<html" in content["text"] and content["mimeType"] == HTML
        meta = {APP: uri} if way == "named" else None
        called = hub.modern("desk", "tools/call", {"name": "get-time", "arguments": {}}, APPS, meta).result
        assert not called.get("isError") and "T" in called["content"][0]["text"]
    finally:
        hub.close()
