"""The hub as a registry of MCP servers, for reading: the servers that a caller may see, for lists of allowed servers.

VS Code and GitHub Copilot read such a registry (`docs/discovery.md`). A server has one version here, its present one.
Sources: modelcontextprotocol/registry, docs/reference/api/openapi.yaml, version 0.1 (2025-12-01); server.json, schema
2025-12-11.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, Response, request

from patchbay.access.principals import ANONYMOUS, EVERY_CALLER
from patchbay.catalogue.servers.server import Server
from patchbay.errors import InvalidParams
from patchbay.settings import OPEN
from patchbay.topics import SERVED
from patchbay.web.pages.public_documents import allow_all_origins, answer_document
from patchbay.web.pages.server_cards import make_card, namespace
from patchbay.web.site.answers import json_answer
from patchbay.web.site.site import Site, base_url
from patchbay.wire.requests.public_paths import REGISTRY_PATH

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
OFFICIAL = "io.modelcontextprotocol.registry/official"
LATEST = "latest"

USUAL_PAGE, MAX_PAGE = 30, 100
"""Servers on a page: without `limit`, and at most; those of the official registry."""


class _RegistryViews:
    def __init__(self, site: Site) -> None:
        self._site = site
        self.is_public = site.settings.mode == OPEN or site.settings.registry_readers == "all"

    def servers(self) -> Response:
        """GET: a page of the servers whose names contain `search`, in the order of their names."""
        limit, since, base = _read_limit(), _read_time("updated_since"), base_url()
        word, version = request.args.get("search", "").lower(), request.args.get("version", LATEST)
        after, page, has_more = request.args.get("cursor", ""), list[dict[str, Any]](), False
        for server in self._served():
            if server.name <= after:
                continue
            card = make_card(server, base)
            if word not in card["name"].lower() or version not in (LATEST, card["version"]):
                continue
            entry = self._entry(server, card)
            if since is not None and _updated_at(entry) < since:
                continue
            has_more = len(page) == limit
            if has_more:
                break
            page.append(entry)
            last = server.name
        return self._answer(_as_list(page, last if has_more else None))

    def versions(self, name: str) -> Response:
        """GET: the versions of a server, which are one."""
        entry = self._find(name)
        return _refuse("Server not found") if entry is None else self._answer(_as_list([entry], None))

    def version(self, name: str, version: str) -> Response:
        """GET: one version of a server; `latest` is the present one."""
        entry = self._find(name)
        if entry is None or version not in (LATEST, entry["server"]["version"]):
            return _refuse("Server not found" if entry is None else "Server version not found")
        return self._answer(entry)

    def _served(self) -> list[Server]:
        sender = self._site.sender
        if sender == ANONYMOUS:  # `registry_readers` is "all"
            sender = EVERY_CALLER
        seen = self._site.access.catalogue_for(sender)
        return sorted((one for one in seen.all() if one.enabled and not one.broken), key=lambda one: one.name)

    def _find(self, name: str) -> dict[str, Any] | None:
        base = base_url()
        own = name.removeprefix(f"{namespace(base)}/")
        server = next((one for one in self._served() if one.name == own != name), None)
        return None if server is None else self._entry(server, make_card(server, base))

    def _entry(self, server: Server, card: dict[str, Any]) -> dict[str, Any]:
        remotes = [{"type": remote["type"], "url": remote["url"]} for remote in card["remotes"]]
        official: dict[str, Any] = {"status": "active", "isLatest": True}
        moves = self._site.catalogue.store.names.past(SERVED + server.name, 1)
        if moves:
            at = datetime.fromtimestamp(moves[0].at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            official |= {"publishedAt": at, "updatedAt": at, "statusChangedAt": at}
        return {"server": card | {"$schema": SCHEMA, "remotes": remotes}, "_meta": {OFFICIAL: official}}

    def _answer(self, document: dict[str, Any]) -> Response:
        # Who signs in may see more than all may, so a shared cache must not keep the answer.
        return answer_document(document, "application/json", is_public=self._site.settings.mode == OPEN)


def _as_list(entries: list[dict[str, Any]], cursor: str | None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"count": len(entries)}
    return {"servers": entries, "metadata": metadata if cursor is None else metadata | {"nextCursor": cursor}}


def _updated_at(entry: dict[str, Any]) -> datetime:
    at = entry["_meta"][OFFICIAL].get("updatedAt")
    return datetime.max.replace(tzinfo=UTC) if at is None else datetime.fromisoformat(at)


def _read_limit() -> int:
    text = request.args.get("limit", str(USUAL_PAGE))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
        raise InvalidParams(f"limit is {text!r:.50}: expected a whole number from 1 on, such as {USUAL_PAGE}")
    return min(int(text), MAX_PAGE)


def _read_time(name: str) -> datetime | None:
    text = request.args.get(name)
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidParams(f"{name} is {text!r:.50}: expected a time of RFC 3339, such as 2026-01-31T12:00:00Z")
    return found


def _refuse(reason: str, status: int = 404) -> Response:
    return json_answer({"error": reason}, status)


def served_registry_blueprint(site: Site) -> Blueprint:
    """The routes of the registry."""
    views = _RegistryViews(site)
    pages = Blueprint("served_registry", __name__)
    pages.register_error_handler(InvalidParams, lambda problem: _refuse(problem.message, 400))
    if views.is_public:
        pages.after_request(allow_all_origins)
    pages.add_url_rule(REGISTRY_PATH, "servers", views.servers)
    pages.add_url_rule(f"{REGISTRY_PATH}/<path:name>/versions", "versions", views.versions)
    pages.add_url_rule(f"{REGISTRY_PATH}/<path:name>/versions/<version>", "version", views.version)
    return pages
