"""Server cards and the catalogue of the hub, which programs read before they connect.

`<endpoint>/server-card` has the card of each server and of all servers as one, `/.well-known/ai-catalog.json` lists the
cards that the reader may see.
Sources: SEP-2127; modelcontextprotocol/ext-server-card, docs/discovery.md; AI Catalog 1.0.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from flask import Blueprint, Response

from patchbay import __version__
from patchbay.catalogue.aggregate.aggregate import NAME_OF_ALL, Aggregate
from patchbay.catalogue.servers.server import Server
from patchbay.messages.versions import REVISIONS
from patchbay.settings import OPEN
from patchbay.web.pages.public_documents import allow_all_origins, answer_document
from patchbay.web.site.data import endpoint_path
from patchbay.web.site.site import Site, base_url

CARD_TYPE, CATALOGUE_TYPE = "application/mcp-server-card+json", "application/ai-catalog+json"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
CATALOGUE_PATH = "/.well-known/ai-catalog.json"
CARD = "server-card"
"""The end of the address of a card, behind the address of its endpoint."""

MAX_DESCRIPTION, MAX_TITLE = 100, 100
"""Characters of the texts of a card."""


class _ServerCardsViews:
    def __init__(self, site: Site) -> None:
        self._site = site

    def card(self, name: str = "") -> Response:
        """GET: the card of a server, or of all of them. Raises UnknownServer for one that the reader may not see."""
        seen = self._site.visible
        return self._answer(make_card(seen.find(name) if name else seen.aggregate(), base_url()), CARD_TYPE)

    def catalogue(self) -> Response:
        """GET: the cards that the reader may see."""
        base = base_url()
        publisher = urlsplit(base).hostname or "localhost"
        served = [one for one in self._site.visible.all() if one.enabled and not one.broken]
        names = ["", *(one.name for one in served)] if served else []
        entries = [
            {
                "identifier": f"urn:air:{publisher}:mcp:{name or NAME_OF_ALL}",
                "type": CARD_TYPE,
                "url": f"{base}{endpoint_path(name) if name else '/mcp'}/{CARD}",
            }
            for name in names
        ]
        return self._answer({"specVersion": "1.0", "entries": entries}, CATALOGUE_TYPE)

    def _answer(self, document: dict[str, Any], media_type: str) -> Response:
        return answer_document(document, media_type, is_public=self._site.settings.mode == OPEN)


def make_card(server: Server, base: str) -> dict[str, Any]:
    """Return the card of a server of the hub at the URL `base`."""
    name = NAME_OF_ALL if isinstance(server, Aggregate) else server.name
    path = "/mcp" if isinstance(server, Aggregate) else endpoint_path(server.name)
    card: dict[str, Any] = {
        "$schema": SCHEMA,
        "name": f"{namespace(base)}/{name}",
        "version": str(server.config.get("server_info", {}).get("version", __version__))[:255],
        "description": _cut(server.description, MAX_DESCRIPTION) or f"The MCP server {name}"[:MAX_DESCRIPTION],
        "remotes": [
            {
                "type": "streamable-http",
                "url": f"{base}{path}",
                "supportedProtocolVersions": list(REVISIONS),
            }
        ],
    }
    title = _cut(server.title or "", MAX_TITLE)
    return card | ({"title": title} if title else {})


def namespace(base: str) -> str:
    """Return the host of a URL as a reverse domain name, the namespace of the hub's servers."""
    host = urlsplit(base).hostname or "localhost"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        labels: Iterator[str] = reversed(host.encode("idna").decode().split("."))
        return ".".join(labels)
    return "ip." + str(address).replace(":", "-")


def _cut(text: str, max_characters: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_characters else line[: max_characters - 1] + "…"


def server_cards_blueprint(site: Site) -> Blueprint:
    """The routes of cards and the catalogue."""
    views = _ServerCardsViews(site)
    pages = Blueprint("server_cards", __name__)
    if site.settings.mode == OPEN:
        pages.after_request(allow_all_origins)  # also the answer to the question of a browser before a request
    pages.add_url_rule(CATALOGUE_PATH, "catalogue", views.catalogue)
    pages.add_url_rule(f"/mcp/{CARD}", "card_of_all", views.card)
    pages.add_url_rule(f"/mcp/<name>/{CARD}", "card", views.card)
    return pages
