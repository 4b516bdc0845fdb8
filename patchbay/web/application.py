"""The class of the Flask application, with the parts of the hub that its modules and its servers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flask import Flask

from patchbay.access.keys import PersonalKeys
from patchbay.catalogue.catalogue import Catalogue
from patchbay.protocol.dispatch import Dispatcher
from patchbay.serving.drain import Drain
from patchbay.serving.health import Health
from patchbay.web.operator.operators import Operators
from patchbay.web.routes import Route
from patchbay.wire.endpoints.websocket_routes import WebSocketRoutes
from patchbay.wire.pipeline import Pipeline
from patchbay.wire.requests.authentication import Authentication

if TYPE_CHECKING:
    from patchbay.access.people.accounts import Accounts
    from patchbay.web.inspection.inspected_servers import InspectedServers
    from patchbay.web.late_pages import LatePages
    from patchbay.web.site.site import Site


@dataclass(slots=True)
class PageParts:
    """What the pages share. `accounts` are those of people who sign in."""

    site: Site
    accounts: Accounts
    inspected_servers: InspectedServers


@dataclass(slots=True)
class Parts:
    """The parts of one application. Those without a default are there from its start.

    The assembly sets `pages`, `authentication` and `pipeline`; `for_pages` raises AttributeError until the pages
    are loaded.
    """

    dispatcher: Dispatcher
    drain: Drain
    operators: Operators
    keys: PersonalKeys
    health: Health
    websockets: WebSocketRoutes = field(default_factory=WebSocketRoutes)
    pages: LatePages = field(init=False)
    authentication: Authentication = field(init=False)
    pipeline: Pipeline = field(init=False)
    for_pages: PageParts = field(init=False)

    @property
    def catalogue(self) -> Catalogue:
        """The servers of the hub."""
        return self.dispatcher.services.catalogue


class Application(Flask):
    """The Flask application of a hub."""

    url_rule_class = Route

    def __init__(self, parts: Parts, **options: Any) -> None:
        super().__init__("patchbay", **options)
        self.parts = parts

    def replace_wsgi_app(self, wsgi_app: Callable[[Any, Any], Iterable[bytes]]) -> None:
        """Answer requests by another application, which is around this one."""
        self.wsgi_app = wsgi_app  # type: ignore[assignment, method-assign]
