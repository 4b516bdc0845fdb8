"""The shared parts of all pages of one hub: catalogue, settings, templates, frame, content negotiation.

Each app has one Site, which every blueprint with pages receives. There is no state at module level.
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
from patchbay.web.pages.data import describe_server, summarize_server
from patchbay.web.rendering.templates import Pages

HTML_TYPES = ("text/html", "application/xhtml+xml")
PROGRAM_TYPES = ("application/json", "text/event-stream")


def wants_html(accept: str) -> bool:
    """Whether an `Accept` header names HTML with at least the quality of JSON and event streams.

    A wildcard alone is not enough: curl and other programs send it.
    """
    qualities = dict(parse_accept_header(accept, MIMEAccept))
    html = max((qualities.get(kind, 0) for kind in HTML_TYPES), default=0)
    return html > 0 and html >= max(qualities.get(kind, 0) for kind in PROGRAM_TYPES)


MAX_RECENT_RECORDS = 500
"""Records to search for the last call of each server."""


class UnknownVariable(PatchbayError):
    """There is no variable of this name."""

    code, status = -32602, 404

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no variable {name[:128]!r}")


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
        """Compile the templates and build the search index in the background."""
        threading.Thread(target=self.pages.prepare, name="pages", daemon=True).start()
        self.directory.prepare(self.catalogue.all())

    def summaries(self) -> list[dict[str, Any]]:
        """Each server as one card or row; `last` is its newest call in MAX_RECENT_RECORDS records, or None."""
        self.directory.prepare(self.catalogue.all())
        last: dict[str, Record] = {}
        wanted = Filter(for_strangers=not self.operators.lenient_proof().is_operator)
        for record in self.activity.recent(wanted, MAX_RECENT_RECORDS, contents=False).records:
            last.setdefault(record.server, record)
        return [
            summarize_server(each, self.settings) | {"last": _last_call(last.get(each.name))}
            for each in self.catalogue.all()
        ]

    def detail(self, server: Server) -> dict[str, Any]:
        """All values of a server for its pages, with `protections`: the isolation of its code from the hub."""
        values = describe_server(server, self.settings)
        runs = confinement(server.kind, server.config, self.settings.isolation, self.settings.memory, server.upstream)
        found = self._hosts.protections() if runs.isolation == "process" else {}
        rows = protections(server.kind, runs, found.get("names", ()), found.get("landlock", 0))
        return values | {"protections": rows}

    def frame(self, here: str) -> dict[str, Any]:
        """The values of every page: `site`, and in `here` the name of the current link of the navigation bar."""
        return {
            "here": here,
            "site": {
                "version": __version__,
                "root": self.catalogue.store.names.get(ROOT),
                "readonly": self.catalogue.readonly,
                "problem": self.catalogue.mcps_problem,
                "url": base_url(),
                "access": self.settings.access,
                "is_operator": self.operators.lenient_proof().is_operator,
            },
        }

    def html(self, name: str, here: str, /, **values: Any) -> Response:
        """Render one of the app's own pages."""
        return html_response(self.pages.page(name, **self.frame(here), **values))

    def content_html(self, name: str, here: str, /, **values: Any) -> Response:
        """Render a page from a content-addressed template. Raises ConfigError when the template is invalid."""
        return html_response(self.pages.content_page(name, **self.frame(here), **values))


def _last_call(record: Record | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {"at": record.at, "outcome": record.outcome, "name": record.name, "method": record.method, "ms": record.ms}


def html_response(text: str) -> Response:
    """An HTML response."""
    return Response(text, mimetype="text/html")


def base_url() -> str:
    """Scheme, host and port of the current request, without a slash at the end. `Host` was checked before."""
    return request.host_url.rstrip("/")
