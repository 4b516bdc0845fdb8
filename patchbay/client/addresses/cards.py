"""Servers of a domain: its AI catalogue and the server cards that it names, as addresses to connect to.

A domain is a URL without a path. Documents of the domain itself may be anywhere; a card, or a server, of another host
has to be public and to use https, because the catalogue names it. A card is a hint: nothing but the address is used.
Sources: SEP-2127; modelcontextprotocol/ext-server-card, docs/discovery.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from patchbay.client.openapi.http_client import ApiClient, ApiFailure, RedirectRefused, get_origin
from patchbay.client.openapi.requests import HttpRequest
from patchbay.client.public_hosts import resolve_public_address
from patchbay.errors import InvalidParams, ParseError, PatchbayError
from patchbay.jsonrpc import parse

CATALOGUE_PATH = "/.well-known/ai-catalog.json"
CARD_TYPE = "application/mcp-server-card+json"
SECONDS = 10.0
MAX_DOCUMENT_BYTES = 1024 * 1024
MAX_CARDS = 50
MAX_NAMED_SERVERS = 8
"""Servers that an error names."""

NO_DOMAIN = "https://no-domain.invalid"
"""In place of the domain that a caller chose, so that every host has to be public."""


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A server that a card describes: its name, a title for people, and its URL."""

    name: str
    title: str
    url: str


def is_domain(address: str) -> bool:
    """Whether an address is a URL of a host alone, behind which a catalogue may be."""
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(host)
        and parts.path in ("", "/")
        and not (parts.query or parts.fragment or "@" in parts.netloc or "$" in address)
    )


def find_servers(domain: str, public: bool = False) -> list[FoundServer]:
    """Return the servers of a domain's catalogue; none if it has no catalogue. `public` forbids a private domain.

    Raises Unreachable and ServerTimeout for a domain that does not answer.
    """
    origin = domain.rstrip("/")
    if public:
        parts = urlsplit(origin)
        resolve_public_address(
            parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80), "the address"
        )
    with ApiClient((NO_DOMAIN if public else origin,), {}, SECONDS, MAX_DOCUMENT_BYTES, SECONDS) as client:
        catalogue = _read(client, f"{origin}{CATALOGUE_PATH}", "application/ai-catalog+json, application/json")
        entries = catalogue.get("entries") if isinstance(catalogue, dict) else None
        cards = [one for one in entries or () if isinstance(one, dict) and one.get("type") == CARD_TYPE]
        return list(_read_listed_cards(client, origin, cards[:MAX_CARDS]))


def address_of(domain: str, public: bool = False) -> str:
    """Return the address of the only server of a domain; the domain itself if it has no catalogue.

    Raises InvalidParams, which names the servers, for a domain with several.
    """
    found = find_servers(domain, public)
    if len(found) > 1:
        named = ", ".join(one.url for one in found[:MAX_NAMED_SERVERS])
        named += f" and {len(found) - MAX_NAMED_SERVERS} more" if len(found) > MAX_NAMED_SERVERS else ""
        raise InvalidParams(f"{domain} has {len(found)} servers; name the address of one of them: {named}")
    return found[0].url if found else domain


def _read_listed_cards(client: ApiClient, origin: str, cards: list[dict[str, Any]]) -> Iterator[FoundServer]:
    seen: set[str] = set()
    for entry in cards:
        url, card = entry.get("url"), entry.get("data")
        if isinstance(url, str) and _is_usable(url, origin):
            try:
                card = _read(client, url, CARD_TYPE)
            except PatchbayError:
                continue  # one card that cannot be read hides no other server
        found = _server_of(card, origin)
        if found is not None and found.url not in seen:
            seen.add(found.url)
            yield found


def _server_of(card: Any, origin: str) -> FoundServer | None:
    if not isinstance(card, dict) or not isinstance(card.get("name"), str):
        return None
    for remote in card.get("remotes") or ():
        url = remote.get("url") if isinstance(remote, dict) else None
        if isinstance(url, str) and remote.get("type") == "streamable-http" and _is_usable(url, origin):
            title = card.get("title")
            return FoundServer(card["name"][:200], title[:100] if isinstance(title, str) else card["name"][:200], url)
    return None


def _is_usable(url: str, origin: str) -> bool:
    """Whether a URL of a catalogue may be used: one of the domain, or https; without placeholders."""
    if len(url) > 2048 or not url.isascii() or not url.isprintable() or set(url) & set(" {}$"):
        return False
    try:
        parts = urlsplit(url)
        is_own = get_origin(url) == get_origin(origin)
    except ValueError:
        return False
    return "@" not in parts.netloc and bool(parts.hostname) and (is_own or parts.scheme == "https")


def _read(client: ApiClient, url: str, accept: str) -> Any:
    """Return the JSON document at a URL; None if the server has no such document."""
    try:
        return parse(client.send(HttpRequest("GET", url, {"Accept": accept})).body)
    except (ApiFailure, ParseError, RedirectRefused):
        return None
