"""The app's own pages: home, servers, variables, history; and the same as JSON for programs.

Everything here only reads. What changes content is in `content.py`, what runs tools in `plain.py`.
Source: DESIGN section 8.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import orjson
from flask import Blueprint, Response

from patchbay.boot import variable
from patchbay.cid import is_cid
from patchbay.transports.mcp_pages import AGGREGATE, shown
from patchbay.transports.page_data import detail, summary
from patchbay.transports.page_templates import pretty
from patchbay.transports.past import Change, changes
from patchbay.transports.programs import json_answer
from patchbay.transports.site import Site, UnknownVariable, base_url
from patchbay.transports.snippets import claude_code

PAST = 50
"""How many moves a page shows."""

_CIDS = re.compile(r"(bafkrei[a-z2-7]{52})")


class _Views:
    """One method for each page."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store

    def home(self) -> Response:
        connect = claude_code(AGGREGATE, f"{base_url()}/mcp")
        return self._site.html("home.html", "home", connect=connect, servers=self._summaries())

    def servers(self) -> Response:
        return self._site.html("servers.html", "servers", servers=self._summaries())

    def servers_json(self) -> Response:
        return json_answer(self._summaries())

    def server(self, name: str) -> Response:
        """A server with its source and versions. Raises UnknownServer."""
        found, _ = shown(self._site, name)
        return self._site.html(
            "server.html",
            "servers",
            server=detail(found, self._site.settings),
            source=self._text_of(found.definition),
            versions=self._past(f"served/{found.name}"),
            past=self._past(f"servers/{found.name}"),
        )

    def variables(self) -> Response:
        found = self._store.names.all("variables/")
        rows = [(name.removeprefix("variables/"), cid) for name, cid in found.items()]
        return self._site.html("variables.html", "variables", variables=rows)

    def variable(self, name: str) -> Response:
        """A variable with its value, readable where it is text. Raises UnknownVariable."""
        cid = self._store.names.get(f"variables/{name}")
        if cid is None:
            raise UnknownVariable(name)
        definition = self._store.blobs.get(cid)
        value = variable(self._store, name)
        response = self._site.html(
            "variable.html",
            "variables",
            variable=name,
            value_cid=cid,
            refers=value != definition,
            pieces=pieces(value or b"", self._site.settings.inline_limit),
            past=self._past(f"variables/{name}"),
        )
        response.set_etag(cid)
        return response

    def history(self) -> Response:
        return self._site.html("history.html", "history", changes=self._changes())

    def history_json(self) -> Response:
        return json_answer(self._changes())

    def _changes(self) -> list[dict[str, Any]]:
        found: list[Change] = changes(self._store, PAST)
        return [asdict(each) for each in found]

    def _summaries(self) -> list[dict[str, Any]]:
        return [summary(each, self._site.settings) for each in self._site.catalogue.all()]

    def _past(self, name: str) -> list[dict[str, Any]]:
        return [asdict(move) for move in self._store.names.past(name, PAST)]

    def _text_of(self, cid: str | None) -> str | None:
        if cid is None or self._store.blobs.missing([cid]):
            return None
        try:
            text: str = self._store.blobs.get(cid).decode("utf-8")
        except UnicodeDecodeError:
            return None
        return text


def pieces(value: bytes, limit: int) -> list[tuple[str, bool]] | None:
    """A value as text in pieces, each with whether it is a CID; JSON is indented. None when it is no text.

    Only the first `limit` bytes are shown of a longer one.
    """
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if len(value) > limit:
        text = text[:limit] + "\n…"
    elif text.lstrip()[:1] in ("{", "["):
        text = _indented(text)
    return [(each, is_cid(each) if index % 2 else False) for index, each in enumerate(_CIDS.split(text)) if each]


def _indented(text: str) -> str:
    try:
        return pretty(orjson.loads(text))
    except orjson.JSONDecodeError:
        return text


def pages_blueprint(site: Site) -> Blueprint:
    """The app's own pages. Their style sheet and scripts are the app's static files, under /static."""
    views = _Views(site)
    pages = Blueprint("pages", __name__)
    pages.add_url_rule("/", "home", views.home)
    pages.add_url_rule("/servers", "servers", views.servers)
    pages.add_url_rule("/servers.json", "servers_json", views.servers_json)
    pages.add_url_rule("/servers/<name>", "server", views.server)
    pages.add_url_rule("/variables", "variables", views.variables)
    pages.add_url_rule("/variables/<name>", "variable", views.variable)
    pages.add_url_rule("/history", "history", views.history)
    pages.add_url_rule("/history.json", "history_json", views.history_json)
    return pages
