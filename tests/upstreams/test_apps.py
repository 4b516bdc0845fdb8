"""Apps of a mounted server (SEP-1865): what it hears of the client, and what comes back unchanged. Issue 37, item 2."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.connection.list_pages import DECLARED_APPS
from tests.hubs import Hub
from tests.interaction.programs import running_hub
from tests.upstreams.apps_server import META, URI
from tests.waiting import until

PROGRAM = Path(__file__).with_name("apps_server.py")
SHOWS_APPS: dict[str, Any] = {"extensions": {**DECLARED_APPS}}
CALL = {"name": "declared", "arguments": {}}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with the server mounted as `card`."""
    hub = Hub(tmp_path_factory.mktemp("apps"))
    address = f"mcp+stdio:{shlex.join((sys.executable, '-S', str(PROGRAM)))}"
    (hub.servers / "card.json").write_text(json.dumps({"kind": "upstream", "address": address}), "utf-8")
    until(lambda: any(server.name == "card" and server.tools for server in hub.catalogue.all()), "its tools")
    yield hub
    hub.close()


def test_a_mounted_server_that_negotiates_lists_its_app(hub: Hub) -> None:
    """37.2."""
    listed = hub.modern("", "tools/list", {}, SHOWS_APPS).result["tools"]
    [show] = [tool for tool in listed if tool["name"] == "card__show"]
    assert show["_meta"]["ui"]["resourceUri"] == "ui://card/card/view.html"
    declared = hub.modern("card", "server/discover", capabilities=SHOWS_APPS).result["capabilities"]["extensions"]
    assert declared["io.modelcontextprotocol/ui"] == {}


@pytest.mark.parametrize(("capabilities", "said"), [(SHOWS_APPS, "declared"), ({}, "not declared")])
def test_the_extension_is_declared_for_a_session_exactly_when_its_client_declared_it(
    hub: Hub, capabilities: dict[str, Any], said: str
) -> None:
    """37.2."""
    session = hub.open("card", capabilities=capabilities)
    assert hub.legacy("card", "tools/call", CALL, session).text == said


@pytest.mark.parametrize(("endpoint", "uri"), [("card", URI), ("", "ui://card/card/view.html")])
def test_the_meta_of_the_contents_of_an_app_passes_unchanged(hub: Hub, endpoint: str, uri: str) -> None:
    """37.2: policy, permissions, domain, and members of other projects."""
    [content] = hub.modern(endpoint, "resources/read", {"uri": uri}, SHOWS_APPS).result["contents"]
    assert content == {"uri": uri, "mimeType": "text/html;profile=mcp-app", "text": "<p>card", "_meta": META}


def test_a_mounted_server_hears_by_its_own_uri_which_app_calls(hub: Hub) -> None:
    """37.2: a hub behind the mount finds the server of the app by it."""
    whose = {"name": "whose", "arguments": {}}
    called = hub.modern("", "tools/call", whose, SHOWS_APPS, {"io.patchbay/app": "ui://card/card/view.html"})
    assert called.text == URI


def test_an_app_behind_two_hubs_calls_the_tools_of_its_own_server_only(tmp_path: Path) -> None:
    """37.2: the second hub mounts `/mcp` of the first one, where two servers have tools of the same name."""
    names = ("left", "right")
    configuration = {
        "tools": {"show": {"_meta": {"ui": {"resourceUri": URI}}}},
        "resources": {"card": {"uri": URI, "mimeType": "text/html;profile=mcp-app", "text": "<p>card"}},
    }
    (tmp_path / "files").mkdir()
    for name in names:
        (tmp_path / "files" / f"{name}.py").write_text(f"def show() -> str:\n    return {name!r}\n")
        (tmp_path / "files" / f"{name}.mcp.json").write_text(json.dumps(configuration))
    with running_hub(tmp_path / "first", sorted((tmp_path / "files").iterdir())) as first:
        hub = Hub(tmp_path / "second")
        try:
            (hub.servers / "far.json").write_text(json.dumps({"kind": "upstream", "address": f"{first.url}/mcp"}))
            until(lambda: any(one.name == "far" and "left__show" in one.tools for one in hub.catalogue.all()), "tools")
            for endpoint, before in (("far", "ui://"), ("", "ui://far/")):
                for name in names:
                    meta = {"io.patchbay/app": f"{before}{name}/card/view.html"}
                    call = {"name": "show", "arguments": {}}
                    assert hub.modern(endpoint, "tools/call", call, SHOWS_APPS, meta).text == name
                    other = {"name": f"{'far__' if not endpoint else ''}{'right' if name == 'left' else 'left'}__show"}
                    refused = hub.modern(endpoint, "tools/call", other | {"arguments": {}}, SHOWS_APPS, meta)
                    assert refused.result["isError"], (endpoint, name)
        finally:
            hub.close()
