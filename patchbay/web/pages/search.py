"""`/search`: full-text search in everything that the hub offers; as JSON at `/search.json`.

The form uses GET: it works without scripts, and each search has a URL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from flask import Blueprint, Response, request

from patchbay.catalogue.search.directory import KINDS, DirectoryEntry, entry_names, without_marks
from patchbay.catalogue.servers.server import Server
from patchbay.errors import InvalidParams
from patchbay.web.servers.entries import entry_link
from patchbay.web.site.answers import list_answer
from patchbay.web.site.data import page_path
from patchbay.web.site.site import Site

Places = Mapping[tuple[str, str, str], int]
"""Server, kind and name of an entry -> its number among its kind on the page of its server."""

MAX_HITS = 100
"""Results of one search, at most."""

MAX_SEARCHED_HITS = 10_000
"""Results among which those are chosen that a reader with limited rights may see."""


class _SearchViews:
    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self) -> Response:
        """GET /search: the form and the results. Raises InvalidParams for an unknown kind."""
        query, kind, found = self._find_entries()
        self._site.directory.prepare(self._site.catalogue.all())
        rows = [hit_row(entry) for entry in found]
        plain_rows = [hit_row(entry) | {"snippet": without_marks(entry.snippet)} for entry in found]
        return list_answer(
            self._site,
            "search.html",
            "search",
            plain_rows,
            query=query,
            kind=kind,
            kinds=KINDS,
            found=rows,
            full=len(rows) == MAX_HITS,
        )

    def _find_entries(self) -> tuple[str, str, list[DirectoryEntry]]:
        query, kind = request.args.get("q", ""), request.args.get("kind", "")
        if kind and kind not in KINDS:
            raise InvalidParams(f"kind must be one of {', '.join(KINDS)}; it is {kind!r:.60}")
        seen = self._site.visible
        every = self._site.catalogue.all()
        if seen.shows_everything:
            return query, kind, self._site.directory.find(every, query, kind, MAX_HITS)
        places = place_entries(seen.all())
        may_see = partial(_is_placed, places)
        found = self._site.directory.find(every, query, kind, MAX_SEARCHED_HITS, may_see)
        return query, kind, visible_entries(found, places)[:MAX_HITS]


def _is_placed(places: Places, entry: DirectoryEntry) -> bool:
    return (entry.server, entry.kind, entry.name) in places


def place_entries(servers: Iterable[Server]) -> Places:
    """Return the places of all entries of these servers, as a reader may see them, on the reader's pages."""
    return {
        (server.name, kind, name): place
        for server in servers
        for kind, names in entry_names(server).items()
        for place, name in enumerate(names, 1 if kind != "server" else 0)
    }


def visible_entries(found: Iterable[DirectoryEntry], places: Places) -> list[DirectoryEntry]:
    """Return the results that have a place, with their places."""
    keys = [(entry.server, entry.kind, entry.name) for entry in found]
    return [replace(entry, place=places[key]) for entry, key in zip(found, keys, strict=True) if key in places]


def hit_row(entry: DirectoryEntry) -> dict[str, Any]:
    """One result as plain values, with the URL of its page."""
    place = entry_link(entry.kind, entry.name, entry.place) if entry.place else ""
    return {
        "kind": entry.kind,
        "server": entry.server,
        "name": entry.name,
        "title": entry.title,
        "snippet": entry.snippet,
        "page": f"{page_path(entry.server)}{place}",
    } | ({"why": entry.why} if entry.why else {})


def search_blueprint(site: Site) -> Blueprint:
    """The route `/search`; its JSON is an array of results, best first."""
    views = _SearchViews(site)
    blueprint = Blueprint("search", __name__)
    blueprint.add_url_rule("/search", "page", views.page)
    return blueprint
