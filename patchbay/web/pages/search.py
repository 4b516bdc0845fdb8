"""`/search`: everything that the hub offers, found by its words; the same as JSON at `/search.json`.

A form that is sent by GET, so that it works without scripts and a search has an address.
Source: REQUIREMENTS VWR-5; patchbay/catalogue/directory.py.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from flask import Blueprint, Response, request

from patchbay.catalogue.directory import KINDS, DirectoryEntry, without_marks
from patchbay.errors import InvalidParams
from patchbay.web.pages.answers import list_answer
from patchbay.web.pages.data import SHOWN
from patchbay.web.site import Site

MAX_HITS = 100
"""Things that one search shows."""


class _Views:
    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self) -> Response:
        """A form and what was found. Raises InvalidParams for an unknown kind."""
        query, kind, found = self._found()
        self._site.directory.prepare(self._site.catalogue.all())
        rows = [row(entry) for entry in found]
        plainly = [row(entry) | {"snippet": without_marks(entry.snippet)} for entry in found]
        return list_answer(
            self._site,
            "search.html",
            "search",
            plainly,
            query=query,
            kind=kind,
            kinds=KINDS,
            found=rows,
            full=len(rows) == MAX_HITS,
        )

    def _found(self) -> tuple[str, str, list[DirectoryEntry]]:
        query, kind = request.args.get("q", ""), request.args.get("kind", "")
        if kind and kind not in KINDS:
            raise InvalidParams(f"kind has to be one of {', '.join(KINDS)}; it is {kind!r:.60}")
        return query, kind, self._site.directory.find(self._site.catalogue.all(), query, kind, MAX_HITS)


def row(entry: DirectoryEntry) -> dict[str, Any]:
    """One find as plain values, with the address of the page that shows it."""
    place = f"#{entry.kind}-{entry.place}" if entry.place else ""
    if entry.place > SHOWN:
        place = f"?page={(entry.place - 1) // SHOWN + 1}{place}"
    return {
        "kind": entry.kind,
        "server": entry.server,
        "name": entry.name,
        "title": entry.title,
        "snippet": entry.snippet,
        "page": f"/mcp/meta/{quote(entry.server, safe='')}{place}",
    }


def finding_blueprint(site: Site) -> Blueprint:
    """`/search`; as JSON an array of what was found, best first."""
    views = _Views(site)
    finding = Blueprint("finding", __name__)
    finding.add_url_rule("/search", "page", views.page)
    return finding
