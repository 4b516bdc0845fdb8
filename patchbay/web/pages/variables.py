"""`/variables` and `/variables/<name>`: named texts, their contents and their history. The pages only read."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from patchbay.boot import read_variable
from patchbay.errors import ContentError, MissingBlob
from patchbay.topics import VARIABLES
from patchbay.web.operator.changes import explain_refusal
from patchbay.web.pages.answers import render_answer
from patchbay.web.pages.server import list_moves
from patchbay.web.rendering.content_kinds import decode_text, detect_kind
from patchbay.web.rendering.highlighting import highlight_source
from patchbay.web.site import Site, UnknownVariable

MAX_GIST_CHARACTERS = 100
"""Characters of each value in the list, at most."""


class _Views:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store

    def variables(self) -> Response:
        self._site.check_shows_everything()
        found = self._store.names.all(VARIABLES)
        rows = [self._row(name.removeprefix(VARIABLES), cid) for name, cid in found.items()]
        return render_answer(self._site, "variables.html", "variables", {"variables": rows})

    def variable(self, name: str) -> Response:
        """GET /variables/<name>: a variable with its value and history. Raises UnknownVariable."""
        self._site.check_shows_everything()
        cid = self._store.names.get(f"{VARIABLES}{name}")
        if cid is None:
            raise UnknownVariable(name)
        value = read_variable(self._store, name) or b""
        definition = self._store.blobs.get(cid)
        text = decode_text(value)
        response = render_answer(
            self._site,
            "variable.html",
            "variables",
            {
                "variable": name,
                "value_cid": cid,
                "refers": value != definition,
                "value": text,
                "past": list_moves(self._store, f"{VARIABLES}{name}"),
            },
            code=highlight_source(text, detect_kind(value)) if text is not None else None,
            refusal=explain_refusal(self._site),
        )
        response.set_etag(cid)
        return response

    def _row(self, name: str, cid: str) -> dict[str, Any]:
        """One row of the list; a missing or damaged value has a message instead of its text."""
        try:
            value = read_variable(self._store, name) or b""
        except MissingBlob:
            return {"name": name, "cid": cid, "bytes": None, "gist": "the value is not in the store"}
        except ContentError:
            return {"name": name, "cid": cid, "bytes": None, "gist": "the value is damaged: set it again"}
        text = decode_text(value[: MAX_GIST_CHARACTERS * 8].decode("utf-8", "ignore").encode())
        gist = " ".join((text or "").split())
        return {
            "name": name,
            "cid": cid,
            "bytes": len(value),
            "gist": gist[:MAX_GIST_CHARACTERS] + ("…" if len(gist) > MAX_GIST_CHARACTERS else ""),
        }


def variable_pages_blueprint(site: Site) -> Blueprint:
    """The routes `/variables` and `GET /variables/<name>`; `content.py` has the routes that change them."""
    views = _Views(site)
    pages = Blueprint("variable_pages", __name__)
    pages.add_url_rule("/variables", "variables", views.variables)
    pages.add_url_rule("/variables/<name>", "variable", views.variable)
    return pages
