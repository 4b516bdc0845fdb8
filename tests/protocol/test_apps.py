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
APP = "io.patchbay/app"
SAME_URI = "ui://card/view.html"
POLICY = {"connectDomains": ["https://api.example"], "resourceDomains": ["https://*.cdn.example"]}


def definition(word: str) -> str:
    said = {"show": word, "refresh": f"{word} again", "secret": f"{word} only"} | (
        {"only_left": "one"} if word == "left" else {}
    )
    return "\n\n".join(f"def {name}() -> str:\n    return {text!r}\n" for name, text in said.items())


def configuration(word: str) -> str:
    ui: dict[str, Any] = {"csp": POLICY, "permissions": {"clipboardWrite": {}}}
    resource = {"uri": SAME_URI, "name": "card", "mimeType": HTML, "text": f"<p>{word}", "_meta": {"ui": ui}}
    show = {"function": "show", "_meta": {"ui": {"resourceUri": SAME_URI, "prefersBorder": True}}}
    refresh = {"function": "refresh", "_meta": {"ui": {"resourceUri": SAME_URI, "visibility": ["app"]}}}
    other = {"uri": f"ui://other/{word}.html", "mimeType": HTML, "text": "<p>other"}
    secret = {"function": "secret", "_meta": {"ui": {"visibility": ["model"]}}}
    tools = {"show": show, "refresh": refresh, "secret": secret} | ({"only_left": {}} if word == "left" else {})
    return orjson.dumps({"tools": tools, "resources": {"card": resource, "other": other}}).decode()


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


def app_call(hub: Hub, server: str, name: str, app: str, capabilities: dict[str, Any] | None = None) -> dict[str, Any]:
    """The result of a call that names the app it comes from."""
    params = {"name": name, "arguments": {}}
    result: dict[str, Any] = hub.modern(server, "tools/call", params, capabilities or APPS, {APP: app}).result
    return result


@pytest.mark.parametrize("word", ["left", "right"])
@pytest.mark.parametrize("name", ["refresh", "{}__refresh"])
def test_an_app_at_mcp_calls_the_tools_of_its_own_server_by_their_names_there(hub: Hub, word: str, name: str) -> None:
    """37.2: two servers have a tool of this name."""
    called = app_call(hub, "", name.format(word), f"ui://{word}/card/view.html")
    assert called["content"][0]["text"] == f"{word} again"


@pytest.mark.parametrize(
    "name", ["right__refresh", "right.refresh", "right_refresh", "right__show", "echo__echo", "echo"]
)
def test_an_app_at_mcp_calls_no_tool_of_another_server(hub: Hub, name: str) -> None:
    """37.2."""
    refused = app_call(hub, "", name, "ui://left/card/view.html")
    assert refused["isError"] and "no tool" in refused["content"][0]["text"]


@pytest.mark.parametrize(("server", "caller"), [("", "ui://left/card/view.html"), ("left", SAME_URI)])
def test_an_app_calls_only_tools_whose_visibility_includes_apps(hub: Hub, server: str, caller: str) -> None:
    """37.2."""
    refused = app_call(hub, server, "secret", caller)
    assert refused["isError"] and "is not for this app" in refused["content"][0]["text"]
    name = "left__secret" if server == "" else "secret"
    assert hub.modern(server, "tools/call", {"name": name, "arguments": {}}).result["content"][0]["text"] == "left only"


@pytest.mark.parametrize("caller", ["ui://unknown/card/view.html", "https://left/card", SAME_URI, 7])
def test_an_app_that_no_server_has_calls_and_reads_nothing_at_mcp(hub: Hub, caller: str) -> None:
    """37.2."""
    assert app_call(hub, "", "left__show", caller)["isError"]
    read = {"uri": "ui://left/card/view.html"}
    assert hub.modern("", "resources/read", read, meta={APP: caller}).error["code"] != 0


@pytest.mark.parametrize(
    "uri", ["ui://right/card/view.html", "server://", "server://right", "server://right/show", "variable://access"]
)
@pytest.mark.parametrize(("server", "caller"), [("", "ui://left/card/view.html"), ("left", SAME_URI)])
def test_an_app_reads_no_app_of_another_server_and_no_view_of_the_hub(
    hub: Hub, server: str, caller: str, uri: str
) -> None:
    """37.2."""
    assert hub.modern(server, "resources/read", {"uri": uri}, meta={APP: caller}).error["code"] != 0


@pytest.mark.parametrize("uri", [SAME_URI, "ui://left/card/view.html"])
def test_an_app_at_mcp_reads_the_resources_of_its_own_server_by_either_uri(hub: Hub, uri: str) -> None:
    """37.2."""
    meta = {APP: "ui://left/card/view.html"}
    [content] = hub.modern("", "resources/read", {"uri": uri}, meta=meta).result["contents"]
    assert (content["uri"], content["text"]) == (uri, "<p>left")


def test_a_client_that_shows_apps_and_names_none_reaches_a_tool_that_one_server_with_apps_has(hub: Hub) -> None:
    """37.2: most clients do not say which app calls."""
    only = {"name": "only_left", "arguments": {}}
    assert hub.modern("", "tools/call", only, APPS).result["content"][0]["text"] == "one"
    assert hub.modern("", "tools/call", only).result["isError"]
    read = {"uri": "ui://other/left.html"}
    assert hub.modern("", "resources/read", read, APPS).result["contents"][0]["text"] == "<p>other"
    assert hub.modern("", "resources/read", read).error["code"] != 0
    assert hub.modern("", "resources/read", {"uri": SAME_URI}, APPS).error["code"] != 0
    for name in ("refresh", "echo", "secret"):
        assert hub.modern("", "tools/call", {"name": name, "arguments": {}}, APPS).result["isError"], name


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18"])
def test_apps_of_a_client_with_a_session_call_by_the_names_of_their_server_too(hub: Hub, version: str) -> None:
    """37.2: the handshake declares the extension for the whole session."""
    call = {"name": "only_left", "arguments": {}}
    for capabilities, is_error in ((APPS, False), ({}, True)):
        session = hub.open("", version, capabilities)
        answer = hub.legacy("", "tools/call", call, session, version)
        assert bool(answer.result.get("isError")) is is_error, capabilities
    session, meta = hub.open("", version, APPS), {"_meta": {APP: "ui://right/card/view.html"}}
    again = hub.legacy("", "tools/call", {"name": "refresh", "arguments": {}, **meta}, session, version)
    assert again.text == "right again"


def test_the_content_of_an_app_has_the_policy_and_permissions_of_its_listing(hub: Hub) -> None:
    """37.2: clients read them from the content first."""
    [content] = hub.modern("left", "resources/read", {"uri": SAME_URI}).result["contents"]
    assert content["_meta"] == {"ui": {"csp": POLICY, "permissions": {"clipboardWrite": {}}}}
