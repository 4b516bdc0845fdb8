"""Icons on pages: sent by the hub, sandboxed, for readers of the server only; a letter for other servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from patchbay.messages.versions import REVISIONS
from patchbay.protocol.translate import implementation
from tests.hubs import Hub
from tests.web.browsing import read
from tests.web.rendering.test_icons import DRAWING, PNG, data_url

ICONS: dict[str, Any] = {
    "auto_discover": True,
    "icons": [{"src": "https://far.example/i.png"}, {"src": data_url(DRAWING, "image/svg+xml")}],
    "tools": {"pick": {"function": "pick", "icons": [{"src": data_url(PNG)}]}},
}
SOURCE = '"""Picks."""\n\n\ndef pick() -> str:\n    return ""\n\n\ndef other() -> str:\n    return ""\n'


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {"drawn.py": SOURCE, "drawn.mcp.json": json.dumps(ICONS), "plain.py": SOURCE}
    hub = Hub(tmp_path_factory.mktemp("hub"), files)
    yield hub
    hub.close()


def test_lists_show_the_icon_of_a_server_or_its_letter(hub: Hub) -> None:
    """Issue 17, item 5: icons of servers. No page names the far host as a picture."""
    for path in ("/", "/servers", "/servers/drawn"):
        html = read(hub, path)
        assert 'src="/servers/drawn/icon"' in html
        assert 'src="https://far.example' not in html
    assert ">P</span>" in read(hub, "/") and ">P</span>" in read(hub, "/servers/plain")
    assert read(hub, "/servers/drawn").count("icon?tool=") == 1


def test_the_hub_sends_the_picture_in_a_sandbox(hub: Hub) -> None:
    """A reader who opens an SVG picture alone runs no script of it."""
    answer = hub.client.get("/servers/drawn/icon")
    assert (answer.status_code, answer.mimetype, answer.data) == (200, "image/svg+xml", DRAWING)
    assert answer.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert hub.client.get("/servers/drawn/icon", headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304
    tool = hub.client.get("/servers/drawn/icon?tool=pick")
    assert (tool.mimetype, tool.data) == ("image/png", PNG)


@pytest.mark.parametrize(
    "path", ["/servers/plain/icon", "/servers/drawn/icon?tool=other", "/servers/drawn/icon?tool=no"]
)
def test_a_missing_icon_is_not_found(hub: Hub, path: str) -> None:
    assert hub.client.get(path).status_code == 404


def test_clients_of_the_revision_with_icons_get_them(hub: Hub) -> None:
    """MCP 2025-11-25, `Implementation.icons`."""
    server = hub.catalogue.find_any("drawn")
    assert server is not None
    assert implementation(server, REVISIONS["2025-11-25"])["icons"] == ICONS["icons"]
    assert "icons" not in implementation(server, REVISIONS["2025-06-18"])
