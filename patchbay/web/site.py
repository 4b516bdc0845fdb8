"""What all pages of one hub share: the catalogue, the settings, the templates, the frame, and what a client wants.

Rule: one Site for each app, handed to every blueprint that shows pages; nothing here is on module level.
Source: DESIGN section 8; REQUIREMENTS V-C8.
"""

from __future__ import annotations

import threading
from typing import Any

from flask import Response, request
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from patchbay import __version__
from patchbay.activity.recorder import Activity
from patchbay.activity.records import Filter, Record
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.directory import Directory
from patchbay.catalogue.servers import Server
from patchbay.errors import PatchbayError
from patchbay.kinds.confinement_description import confinement, protections
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.settings import Settings
from patchbay.topics import ROOT
from patchbay.web.operator.operators import Operators
from patchbay.web.pages.data import detail, summary
from patchbay.web.rendering.templates import Pages

HTML_TYPES = ("text/html", "application/xhtml+xml")
PROGRAM_TYPES = ("application/json", "text/event-stream")


def wants_html(accept: str) -> bool:
    """Whether an `Accept` header names HTML, and at least as much as what MCP clients read.

    A wildcard alone is not enough: that is what curl and programs send (V-C8).
    """
    qualities = dict(parse_accept_header(accept, MIMEAccept))
    html = max((qualities.get(kind, 0) for kind in HTML_TYPES), default=0)
    return html > 0 and html >= max(qualities.get(kind, 0) for kind in PROGRAM_TYPES)


RECENT = 500
"""Records that are looked at for the last call of each server."""


class UnknownVariable(PatchbayError):
    """There is no variable of this name."""

    code, status = -32602, 404

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no variable {name[:128]!r} here")


class Site:
    """The pages of one hub."""

    def __init__(self, catalogue: Catalogue, settings: Settings, activity: Activity, hosts: WorkerPool) -> None:
        self._hosts = hosts
        self.catalogue = catalogue
        self.settings = settings
        self.activity = activity
        self.directory = Directory()
        self.pages = Pages(catalogue.store)
        self.operators = Operators(settings, catalogue.store, lambda: catalogue.readonly)

    def prepare(self) -> None:
        """Get ready in the background what the first page and the first search would wait for."""
        threading.Thread(target=self.pages.prepare, name="pages", daemon=True).start()
        self.directory.prepare(self.catalogue.all())

    def summaries(self) -> list[dict[str, Any]]:
        """Every server as one card or row, with its last call where one of the newest `RECENT` records is of it."""
        self.directory.prepare(self.catalogue.all())
        last: dict[str, Record] = {}
        wanted = Filter(for_strangers=not self.operators.shown().operator)
        for record in self.activity.recent(wanted, RECENT, contents=False).records:
            last.setdefault(record.server, record)
        return [summary(each, self.settings) | {"last": _last(last.get(each.name))} for each in self.catalogue.all()]

    def detail(self, server: Server) -> dict[str, Any]:
        """Everything that pages show of a server, with `protections`: what keeps its code away from the hub."""
        said = detail(server, self.settings)
        runs = confinement(server.kind, server.config, self.settings.isolation, self.settings.memory, server.upstream)
        found = self._hosts.protections() if runs.isolation == "process" else {}
        rows = protections(server.kind, runs, found.get("names", ()), found.get("landlock", 0))
        return said | {"protections": rows}

    def frame(self, here: str) -> dict[str, Any]:
        """The values that every page gets: `site` and which link of the bar is the current one."""
        return {
            "here": here,
            "site": {
                "version": __version__,
                "root": self.catalogue.store.names.get(ROOT),
                "readonly": self.catalogue.readonly,
                "problem": self.catalogue.mcps_problem,
                "url": base_url(),
                "access": self.settings.access,
                "standing": self.operators.shown(),
            },
        }

    def html(self, name: str, here: str, /, **values: Any) -> Response:
        """One of the app's own pages."""
        return page(self.pages.page(name, **self.frame(here), **values))

    def content_html(self, name: str, here: str, /, **values: Any) -> Response:
        """A page from a content-addressed template. Raises ConfigError when the template cannot be used."""
        return page(self.pages.content_page(name, **self.frame(here), **values))


def _last(record: Record | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {"at": record.at, "outcome": record.outcome, "name": record.name, "method": record.method, "ms": record.ms}


def page(text: str) -> Response:
    """HTML as an answer."""
    return Response(text, mimetype="text/html")


def base_url() -> str:
    """Scheme, host and port as the client wrote them, without a slash at the end (`Host` is checked before)."""
    return request.host_url.rstrip("/")
