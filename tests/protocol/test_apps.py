"""Apps (SEP-1865): the URIs of several servers at `/mcp`, tools for apps only, and what a client declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.hubs import MODERN, Hub
from tests.protocol.test_tools import listed

UI = "io.modelcontextprotocol/ui"
HTML = "text/html;profile=mcp-app"
APPS = {"extensions": {UI: {"mimeTypes": [HTML]}}}
SAME_URI = "ui://card/view.html"
POLICY = {"connectDomains": ["https://api.example"], "resourceDomains": ["https://*.cdn.example"]}


def definition(word: str) -> str:
    return f"def show() -> str:\n    return '{word}'\n\n\ndef refresh() -> str:\n    return '{word} again'\n"


def configuration(word: str) -> str:
    ui: dict[str, Any] = {"csp": POLICY, "permissions": {"clipboardWrite": {}}}
    resource = {"uri": SAME_URI, "name": "card", "mimeType": HTML, "text": f"<p>{word}", "_meta": {"ui": ui}}
    show = {"function": "show", "_meta": {"ui": {"resourceUri": SAME_URI, "prefersBorder": True}}}
    refresh = {"function": "refresh", "_meta": {"ui": {"resourceUri": SAME_URI, "visibility": ["app"]}}}
    return orjson.dumps({"tools": {"show": show, "refresh": refresh}, "resources": {"card": resource}}).decode()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {f"{word}.py": definition(word) for word in ("left", "right")}
    files |= {f"{word}.mcp.json": configuration(word) for word in ("left", "right")}
    hub = Hub(tmp_path_factory.mktemp("apps"), files)
    yield hub
    hub.close()


def tools(hub: Hub, server: str, capabilities: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    params: dict[str, Any] | None = {}
    while params is not None:
        page = hub.modern(server, "tools/list", params, capabilities).result
        found |= {tool["name"]: tool for tool in page["tools"]}
        params = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
    return found


@pytest.mark.parametrize("word", ["left", "right"])
def test_two_servers_with_one_ui_uri_are_kept_apart_and_each_tool_names_its_own_app(hub: Hub, word: str) -> None:
    """37.2."""
    ui = tools(hub, "", APPS)[f"{word}__show"]["_meta"]["ui"]
    assert ui == {"resourceUri": f"ui://{word}/card/view.html", "prefersBorder": True}
    [content] = hub.modern("", "resources/read", {"uri": ui["resourceUri"]}).result["contents"]
    assert (content["uri"], content["text"], content["mimeType"]) == (ui["resourceUri"], f"<p>{word}", HTML)


def test_the_policy_and_permissions_of_an_app_are_listed_unchanged_at_mcp(hub: Hub) -> None:
    """37.2."""
    found = {one["uri"]: one for one in hub.modern("", "resources/list").result["resources"]}
    assert found["ui://left/card/view.html"]["_meta"] == {"ui": {"csp": POLICY, "permissions": {"clipboardWrite": {}}}}


def test_a_server_reads_no_app_of_another_server(hub: Hub) -> None:
    """37.2."""
    assert hub.modern("left", "resources/read", {"uri": "ui://right/card/view.html"}).error["code"] != 0
    assert hub.modern("", "resources/read", {"uri": "ui://left/right/card/view.html"}).error["code"] != 0
    assert hub.modern("", "resources/read", {"uri": SAME_URI}).error["code"] != 0


@pytest.mark.parametrize(("server", "name"), [("left", "refresh"), ("", "left__refresh")])
def test_only_a_client_that_shows_apps_lists_and_calls_a_tool_for_apps_only(hub: Hub, server: str, name: str) -> None:
    """37.2."""
    assert name in tools(hub, server, APPS)
    assert name not in tools(hub, server)
    refused = hub.modern(server, "tools/call", {"name": name, "arguments": {}}).result
    assert refused["isError"] and "is for apps only" in refused["content"][0]["text"]
    called = hub.modern(server, "tools/call", {"name": name, "arguments": {}}, APPS).result
    assert called["content"][0]["text"] == "left again"


def test_the_hub_declares_apps_to_clients_that_show_them_and_only_where_there_are_any(hub: Hub) -> None:
    """37.2."""
    shown = hub.modern("left", "server/discover", capabilities=APPS).result["capabilities"]["extensions"]
    assert shown[UI] == {}
    assert UI not in hub.modern("left", "server/discover").result["capabilities"]["extensions"]
    assert UI not in hub.modern("echo", "server/discover", capabilities=APPS).result["capabilities"]["extensions"]


def test_a_tool_of_an_app_is_an_ordinary_tool_for_other_clients(hub: Hub) -> None:
    """37.2."""
    assert "left__show" in listed(hub, "", MODERN)
    assert hub.call("", "left__show", {}, MODERN).text == "left"
