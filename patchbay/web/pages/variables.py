"""`/variables` and `/variables/<name>`: named texts, their contents and their past. Everything here only reads.

Source: DESIGN section 8; REQUIREMENTS VWR-2.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from patchbay.boot import read_variable
from patchbay.errors import ContentError, MissingBlob
from patchbay.web.operator.changes import why_not
from patchbay.web.pages.answers import render_answer
from patchbay.web.pages.server import past
from patchbay.web.rendering.content_kinds import kind_of, text_of
from patchbay.web.rendering.highlighting import source
from patchbay.web.site import Site, UnknownVariable

GIST = 100
"""Characters of a value that the list shows."""


class _Views:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store

    def variables(self) -> Response:
        found = self._store.names.all("variables/")
        rows = [self._row(name.removeprefix("variables/"), cid) for name, cid in found.items()]
        return render_answer(self._site, "variables.html", "variables", {"variables": rows})

    def variable(self, name: str) -> Response:
        """A variable with its value, readable where it is text. Raises UnknownVariable."""
        cid = self._store.names.get(f"variables/{name}")
        if cid is None:
            raise UnknownVariable(name)
        value = read_variable(self._store, name) or b""
        definition = self._store.blobs.get(cid)
        text = text_of(value)
        response = render_answer(
            self._site,
            "variable.html",
            "variables",
            {
                "variable": name,
                "value_cid": cid,
                "refers": value != definition,
                "value": text,
                "past": past(self._store, f"variables/{name}"),
            },
            code=source(text, kind_of(value)) if text is not None else None,
            sealed=why_not(self._site),
        )
        response.set_etag(cid)
        return response

    def _row(self, name: str, cid: str) -> dict[str, Any]:
        """One line of the list; a value that cannot be had says so."""
        try:
            value = read_variable(self._store, name) or b""
        except MissingBlob:
            return {"name": name, "cid": cid, "bytes": None, "gist": "its value is not in the store"}
        except ContentError:
            return {"name": name, "cid": cid, "bytes": None, "gist": "its value is damaged: set it again"}
        text = text_of(value[: GIST * 8].decode("utf-8", "ignore").encode())
        gist = " ".join((text or "").split())
        return {
            "name": name,
            "cid": cid,
            "bytes": len(value),
            "gist": gist[:GIST] + ("…" if len(gist) > GIST else ""),
        }


def variable_pages_blueprint(site: Site) -> Blueprint:
    """`/variables` and `GET /variables/<name>`; what changes one is in `content.py`."""
    views = _Views(site)
    pages = Blueprint("variable_pages", __name__)
    pages.add_url_rule("/variables", "variables", views.variables)
    pages.add_url_rule("/variables/<name>", "variable", views.variable)
    return pages
