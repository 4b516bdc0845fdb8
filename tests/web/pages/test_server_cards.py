"""Server cards and the catalogue: their form, who sees what, and how clients find a hub with them."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import mcp
import pytest

from patchbay.arguments import problems, validator
from patchbay.cid import cid_of
from patchbay.client.addresses.cards import address_of, find_servers, is_domain
from patchbay.errors import InvalidParams
from tests.hubs import Hub
from tests.interaction.programs import running_hub

NOTES = '"""Notes of the team."""\n\n\ndef find(text: str) -> str:\n    """Find a note."""\n    return text\n'
CARD_TYPE = "application/mcp-server-card+json"
CARD = {
    "type": "object",
    "required": ["$schema", "description", "name", "version"],
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"},
        "name": {"type": "string", "minLength": 3, "maxLength": 200, "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"type": "string", "maxLength": 255},
        "remotes": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "url"],
                "properties": {
                    "type": {"enum": ["streamable-http", "sse"]},
                    "url": {"pattern": "^https?://[^\\s]+$"},
                    "supportedProtocolVersions": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
}
"""The limits of the published schema for the members that a card of the hub has."""

CATALOGUE = {
    "type": "object",
    "required": ["specVersion", "entries"],
    "properties": {
        "specVersion": {"const": "1.0"},
        "entries": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["identifier", "type"],
                "properties": {
                    "identifier": {"type": "string", "pattern": "^urn:air:[a-z0-9.-]+:mcp:[A-Za-z0-9._-]+$"},
                    "type": {"const": CARD_TYPE},
                    "url": {"type": "string", "pattern": "^https?://[^\\s]+$"},
                    "data": CARD,
                },
                "oneOf": [{"required": ["url"]}, {"required": ["data"]}],
            },
        },
    },
}
"""The members of a catalogue and of its entries for cards (modelcontextprotocol/ext-server-card, discovery.md)."""


def card(hub: Hub, path: str) -> Any:
    answer = hub.client.get(path, headers={"Accept": CARD_TYPE})
    assert answer.status_code == 200 and answer.mimetype == CARD_TYPE
    assert answer.headers["ETag"] == f'"{cid_of(answer.data)}"'
    return answer.get_json(force=True)


def test_each_server_has_a_card_within_the_limits_of_the_schema_and_an_etag_that_is_its_cid(tmp_path: Path) -> None:
    """37.3"""
    hub = Hub(tmp_path, {"notes.py": NOTES, "long.py": '"""' + "many words " * 50 + '"""\n\n\ndef a() -> str: ...\n'})
    try:
        for path in ("/mcp/server-card", "/mcp/notes/server-card", "/mcp/long/server-card"):
            found = card(hub, path)
            assert problems(validator(CARD), found) == []
            assert found["remotes"][0]["url"] == "http://localhost" + path.removesuffix("/server-card")
        assert card(hub, "/mcp/notes/server-card")["description"] == "Notes of the team."
        first = hub.client.get("/mcp/notes/server-card")
        again = hub.client.get("/mcp/notes/server-card", headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.data) == (304, b"")
        assert hub.client.get("/mcp/nothing/server-card").status_code == 404
    finally:
        hub.close()


def test_the_catalogue_lists_the_cards_and_web_pages_read_it_of_an_open_hub_only(tmp_path: Path) -> None:
    """37.3"""
    for access, allowed in (("personal", None), ("open", "*")):
        hub = Hub(tmp_path / access, {"notes.py": NOTES}, access=access)
        try:
            answer = hub.client.get("/.well-known/ai-catalog.json", environ_base={"REMOTE_ADDR": "127.0.0.1"})
            assert answer.mimetype == "application/ai-catalog+json"
            assert answer.headers.get("Access-Control-Allow-Origin") == allowed
            found = answer.get_json(force=True)
            assert problems(validator(CATALOGUE), found) == []
            entries = {one["identifier"]: one for one in found["entries"]}
            assert entries["urn:air:localhost:mcp:notes"]["url"] == "http://localhost/mcp/notes/server-card"
            assert all(one["type"] == CARD_TYPE for one in found["entries"])
        finally:
            hub.close()


def test_a_shared_hub_shows_no_card_without_credentials(tmp_path: Path) -> None:
    """37.3"""
    hub = Hub(tmp_path, {"notes.py": NOTES}, access="shared")
    try:
        for path in ("/.well-known/ai-catalog.json", "/mcp/notes/server-card"):
            assert hub.client.get(path, headers={"Accept": "application/json"}).status_code == 401
    finally:
        hub.close()


@pytest.mark.process
def test_a_client_that_knows_the_domain_finds_the_servers(tmp_path: Path) -> None:
    """37.3"""
    (tmp_path / "notes.py").write_text(NOTES)
    with running_hub(tmp_path / "hub", [tmp_path / "notes.py"], enable="") as hub:
        found = {one.name.partition("/")[2]: one.url for one in find_servers(hub.url)}
        assert found["notes"] == f"{hub.url}/mcp/notes" and found["patchbay"] == f"{hub.url}/mcp"
        with pytest.raises(InvalidParams, match="name the address of one of them"):
            address_of(hub.url)
        with pytest.raises(Exception, match="not a public address"):
            find_servers(hub.url, public=True)


@pytest.mark.process
def test_each_card_of_the_catalogue_leads_the_official_client_to_what_it_says(tmp_path: Path) -> None:
    """37.3: what a card says does not contradict what a client observes once it is connected."""

    async def connect(card: Any) -> None:
        (remote,) = card["remotes"]
        async with mcp.Client(remote["url"]) as client:
            found = client.server_info
            assert found is not None and found.version == card["version"] and card["name"].endswith(f"/{found.name}")
            assert client.protocol_version in remote["supportedProtocolVersions"]
            assert (await client.list_tools()).tools

    (tmp_path / "notes.py").write_text(NOTES)
    with running_hub(tmp_path / "hub", [tmp_path / "notes.py"], enable="") as hub:
        catalogue = httpx2.get(f"{hub.url}/.well-known/ai-catalog.json").json()
        urls = [one["url"] for one in catalogue["entries"] if one["type"] == CARD_TYPE]
        assert f"{hub.url}/mcp/notes/server-card" in urls and f"{hub.url}/mcp/server-card" in urls
        for url in urls:
            if "/notes/" in url or url.endswith("/mcp/server-card"):
                asyncio.run(connect(httpx2.get(url, headers={"Accept": CARD_TYPE}).json()))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://weather.example", True),
        ("https://weather.example/", True),
        ("http://127.0.0.1:8000", True),
        ("https://weather.example/mcp", False),
        ("https://weather.example?x=1", False),
        ("https://user@weather.example", False),
        ("mcp+uvx://server", False),
        ("@profile", False),
        ("https://${HOST}", False),
    ],
)
def test_a_domain_is_a_url_without_a_path(address: str, expected: bool) -> None:
    assert is_domain(address) is expected


@pytest.mark.parametrize("place", ["https://another.example/", "/.well-known/ai-catalog.json"])
def test_a_domain_whose_catalogue_is_a_redirect_that_is_not_followed_has_none(place: str) -> None:
    """37.3"""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", place)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Write no log line."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert find_servers(f"http://127.0.0.1:{server.server_address[1]}") == []
        server.shutdown()


@contextmanager
def serving_catalogue(*entries: dict[str, Any]) -> Iterator[str]:
    """Serve a catalogue on this machine; give the URL of its domain, which ORIGIN stands for in the entries."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"specVersion": "1.0", "entries": entries}).replace("ORIGIN", origin).encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Write no log line."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        origin = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield origin
        finally:
            server.shutdown()


def entry_with(url: str) -> dict[str, Any]:
    """An entry whose card is inside the catalogue."""
    card = {"name": "example/notes", "version": "1", "remotes": [{"type": "streamable-http", "url": url}]}
    return {"identifier": "urn:air:example:mcp:notes", "type": CARD_TYPE, "data": card}


def test_a_card_leads_to_the_domain_itself_or_to_a_host_with_https() -> None:
    """Issue 49, item 4."""
    refused = ("http://far.example/mcp", "http://127.0.0.1:1/mcp", "https://user@far.example/mcp", "file:///etc/passwd")
    with serving_catalogue(*map(entry_with, (*refused, "ORIGIN/mcp", "https://far.example/mcp"))) as origin:
        assert [one.url for one in find_servers(origin)] == [f"{origin}/mcp", "https://far.example/mcp"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_document_of_a_catalogue_at_another_host_is_read_only_at_a_public_address(scheme: str) -> None:
    """Issue 49, item 4: nothing connects to a private address that a catalogue names."""
    with socket.create_server(("127.0.0.1", 0)) as inside:
        inside.setblocking(False)
        url = f"{scheme}://127.0.0.1:{inside.getsockname()[1]}/card"
        own = entry_with("ORIGIN/mcp")
        with serving_catalogue({"identifier": "x", "type": CARD_TYPE, "url": url}, own) as origin:
            assert [one.url for one in find_servers(origin)] == [f"{origin}/mcp"]
        with pytest.raises(BlockingIOError):
            inside.accept()
