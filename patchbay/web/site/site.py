"""The shared parts of all pages of one hub: catalogue, settings, templates, frame, content negotiation.

Each app has one Site, which every blueprint with pages receives. There is no state at module level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from flask import Response, request
from werkzeug.exceptions import NotFound

from patchbay import __version__
from patchbay.access.control import AccessControl
from patchbay.access.principals import LOCAL_OPERATOR, Principal
from patchbay.activity.recorder import Activity
from patchbay.activity.records import Filter, Record
from patchbay.background import run_in_background
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.search.directory import Directory
from patchbay.catalogue.servers.server import Server
from patchbay.catalogue.visible_catalogue import VisibleCatalogue
from patchbay.documents.collection import Library
from patchbay.errors import PatchbayError, UnknownServer
from patchbay.kinds.confinement_description import protections
from patchbay.settings import Settings
from patchbay.topics import ROOT
from patchbay.web.operator.operators import Operators
from patchbay.web.rendering.templates import Pages
from patchbay.web.site.data import describe_isolation, describe_problem, describe_server, summarize_server
from patchbay.web.site.navigation import Reader, Waiting, count_ailing, describe_navigation
from patchbay.wire.requests.base_urls import find_base_url
from patchbay.wire.requests.wsgi import request_of

MAX_RECENT_RECORDS = 500
"""Records to search for the last call of each server."""


class UnknownVariable(PatchbayError):
    """There is no variable of this name."""

    code, status = -32602, 404

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no variable {name[:128]!r}")


class Site:
    """The pages of one hub. `protections` returns those of the workers that run definitions.

    `find_person` returns the name of the person who is signed in in the browser of the current request, or an empty
    text. `add_prefix_to_links` returns the JSON of a page with the path prefix in its links. `count_waiting_calls`
    returns the number of calls that wait for an approval, `count_failed_schedules` that of the schedules whose last run
    failed, `count_full` that of what is nearly full. `find_attention` returns a value that changes with what the home
    page of an operator shows.
    """

    find_person: Callable[[], str] = staticmethod(lambda: "")
    add_prefix_to_links: Callable[[Any], Any] = staticmethod(lambda data: data)
    count_waiting_calls: Callable[[], int] = staticmethod(lambda: 0)
    count_failed_schedules: Callable[[], int] = staticmethod(lambda: 0)
    count_full: Callable[[], int] = staticmethod(lambda: 0)
    find_attention: Callable[[], object] = staticmethod(lambda: None)

    def __init__(
        self,
        catalogue: Catalogue,
        settings: Settings,
        activity: Activity,
        protections: Callable[[], dict[str, Any]],
        access: AccessControl,
        operators: Operators,
    ) -> None:
        self._protections = protections
        self.access = access
        self.operators = operators
        self.catalogue = catalogue
        self.settings = settings
        self.activity = activity
        self.directory = Directory()
        self.pages = Pages(catalogue.store, settings.path_prefix)

    @property
    def sender(self) -> Principal:
        """The principal of the current request."""
        found = request_of(request.environ).sender
        assert isinstance(found, Principal)
        return found

    def find_stay(self) -> Callable[[], bool]:
        """Return a function that says whether an open stream of the current page goes on: whether the credentials of
        its reader are valid, and the reader's rights those of now.
        """
        unchanged, proof = self.access.unchanged(self.sender), self.operators.lenient_proof()
        if not proof.credential or self.sender.credential:
            return unchanged
        # Without rules of access the sender in personal mode is the same with and without the proof.
        operator = replace(LOCAL_OPERATOR, credential=proof.credential)
        return lambda: unchanged() and self.access.is_current(operator)

    @property
    def visible(self) -> VisibleCatalogue:
        """The catalogue as the reader of the current page may see it."""
        return self.access.catalogue_for(self.sender)

    def check_shows_everything(self) -> None:
        """Check that the reader may see the whole configuration. Raises NotFound, as for a page that does not exist."""
        if not self.visible.shows_everything:
            raise NotFound

    def prepare(self) -> None:
        """Compile the templates and build the search index in the background."""
        run_in_background("pages", self.pages.prepare)
        self.directory.prepare(self.catalogue.all())

    def summaries(self) -> list[dict[str, Any]]:
        """Each server as one card or row; `last` is its newest call in MAX_RECENT_RECORDS records, or None."""
        self.directory.prepare(self.catalogue.all())
        seen = self.visible
        last: dict[str, Record] = {}
        wanted = self.limited_to_reader(Filter())
        for record in self.activity.recent(wanted, MAX_RECENT_RECORDS, contents=False).records:
            last.setdefault(record.server, record)
        return [
            summarize_server(each, self.settings) | {"last": _last_call(last.get(each.name))} for each in seen.all()
        ]

    def limited_to_reader(self, wanted: Filter) -> Filter:
        """Limit a filter of records to what the current reader may see."""
        is_operator, seen = self.operators.lenient_proof().is_operator, self.visible
        may_see = None if seen.shows_everything else partial(has_entry, seen)
        return replace(wanted, for_strangers=not is_operator, may_see=may_see)

    def detail(self, server: Server) -> dict[str, Any]:
        """All values of a server for its pages.

        `protections` is the isolation of its code from the hub; `held` is the number of entries that wait for the
        approval of the operator, 0 for other readers. `has_documents` says whether the server has pages of documents.

        A reader who may not see the source gets no configuration, because it may name hidden tools, and no output of a
        program, because it may name files.
        """
        values = describe_server(server, self.settings)
        if not server.pinned:
            values["problems"] += map(describe_problem, self.visible.aggregate().refused.get(server.name, ()))
        if not self.visible.shows_source(server.name):
            values |= {"config": {}, "config_cid": None, "definition": None, "problems": [], "packages": None}
            values |= {"upstream": values["upstream"] | {"output": []}} if values["upstream"] is not None else {}
        runs = describe_isolation(server, self.settings)
        found = self._protections() if runs.isolation == "process" else {}
        rows = protections(server.kind, runs, found.get("names", ()), found.get("landlock", 0), server.standing)
        is_operator = self.operators.lenient_proof().is_operator
        held = len(server.pins.held) if server.pins is not None and is_operator else 0
        has_documents = isinstance(self.catalogue.hub.find_kept(server.name), Library)
        return values | {"protections": rows, "held": held, "has_documents": has_documents}

    def frame(self, here: str) -> dict[str, Any]:
        """The values of every page: `site`, `navigation`, and the name of the current link in `here`."""
        return {
            "here": here,
            "navigation": self._navigation(here),
            "site": {
                "version": __version__,
                "root": self.catalogue.store.names.get(ROOT) if self.visible.shows_everything else None,
                "readonly": self.catalogue.readonly,
                "problem": self._problem(),
                "url": base_url(),
                "access": self.settings.mode,
                "is_operator": self.operators.lenient_proof().is_operator,
                "has_operator_session": self.operators.lenient_proof().is_own_session,
                "person": self.find_person(),
            },
        }

    def _navigation(self, here: str) -> dict[str, Any]:
        """The links of the current reader, with the numbers of what waits for this reader."""
        is_operator, seen = self.operators.lenient_proof().is_operator, self.visible
        approvals = self.count_waiting_calls() if is_operator else 0
        reader = Reader(
            has_operator_pages=is_operator,
            sees_configuration=seen.shows_everything,
            may_inspect=is_operator or self.settings.mode == "personal",
            has_people=self.settings.mode == "shared",
        )
        others = self.count_failed_schedules() + self.count_full() if is_operator else 0
        home = approvals + count_ailing(seen.all(), is_operator) + others
        return describe_navigation(here, reader, Waiting(home, approvals))

    def _problem(self) -> str | None:
        """What is wrong with the configuration of the hub, for readers of the whole configuration."""
        problem = self.catalogue.access_problem or self.catalogue.mcps_problem
        return problem if problem and self.visible.shows_everything else None

    def html(self, name: str, here: str, /, **values: Any) -> Response:
        """Render one of the app's own pages."""
        return html_response(self.pages.page(name, **self.frame(here), **values))

    def content_html(self, name: str, here: str, /, **values: Any) -> Response:
        """Render a page from a content-addressed template. Raises ConfigError when the template is invalid."""
        return html_response(self.pages.content_page(name, **self.frame(here), **values))


def has_entry(seen: VisibleCatalogue, server: str, name: str) -> bool:
    """Whether a server has a tool, prompt or resource of this name, as a reader may see it."""
    try:
        found = seen.find(server)
    except UnknownServer:
        return False
    return any(name in group for group in (found.tools, found.prompts, found.resources, found.templates))


def _last_call(record: Record | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {"at": record.at, "outcome": record.outcome, "name": record.name, "method": record.method, "ms": record.ms}


def html_response(text: str) -> Response:
    """An HTML response."""
    return Response(text, mimetype="text/html")


def base_url() -> str:
    """The URL of the hub as the reader of the current page sees it. `Host` was checked before."""
    return find_base_url(request_of(request.environ))
