"""`/settings`: the settings that the hub was started with, and the way to each page about the hub itself.

For each setting it has the value, the default, where the value came from, and the sentence of the table of settings.
Secrets are never shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flask import Blueprint, Response

from patchbay.boot import root_history
from patchbay.coordination.nodes import living_nodes
from patchbay.pins.records import pinned_servers
from patchbay.protocol.hub_services import HubServices
from patchbay.setting_values.display import display_value
from patchbay.settings import PREFIX, Settings
from patchbay.topics import VARIABLES
from patchbay.web.pages.schedules import list_failed_schedules
from patchbay.web.site.answers import render_answer
from patchbay.web.site.site import Site

PAGE = "/settings"


class _HubViews:
    def __init__(self, site: Site, services: HubServices) -> None:
        self._site = site
        self._services = services

    def show(self) -> Response:
        """GET: the settings, and the pages about the hub with what is on them. Raises NotOperator."""
        self._site.operators.check_operator()
        data = {"settings": describe_settings(self._site.settings), "parts": list(self._parts())}
        response = render_answer(self._site, "hub.html", "hub", data)
        response.headers["Cache-Control"] = "no-store"
        return response

    def _parts(self) -> Iterable[dict[str, str]]:
        """Yield each page about the hub: its label, path, what it is for, and what is on it now."""
        store, services = self._site.catalogue.store, self._services
        yield _part(
            "Variables",
            "/variables",
            "texts shared by all servers",
            _count(len(store.names.all(VARIABLES)), "variable"),
        )
        secrets = _count(len(services.secrets.all()), "secret")
        yield _part("Secrets", "/secrets", "what configurations name as ${NAME}, sealed", secrets)
        last = root_history(store, 1)
        now = f"Last: {last[0].why}" if last else "no change yet"
        yield _part("History", "/history", "who changed what, with a way back", now)
        held = sum(len(each.pins.held) for each in self._site.catalogue.all() if each.pins is not None)
        pinned = _count(len(pinned_servers(store)), "server")
        yield _part(
            "Pins", "/pins", "what mounted servers list, as approved", f"{pinned}, {held} held" if held else pinned
        )
        failed = len(list_failed_schedules(services.scheduler))
        schedules = _count(len(services.scheduler.all()), "schedule")
        now = f"{schedules}, {failed} failed" if failed else schedules
        yield _part("Schedules", "/schedules", "tools that the hub calls by itself", now)
        webhooks = _count(sum(1 for _ in services.webhooks.all()), "webhook")
        yield _part("Webhooks", "/webhooks", "subscribers that get events by HTTPS", webhooks)
        nodes = _count(len(living_nodes(store)), "process") if store.is_shared else "one machine"
        yield _part("Nodes", "/nodes", "the processes of all hubs on one database", nodes)
        yield _part("Registry", "/registry", "servers to add, and updates of mounted packages", "")
        yield _part("Inspect", "/inspect", "any MCP server by its address, without mounting it", "")


def _part(label: str, path: str, purpose: str, now: str) -> dict[str, str]:
    return {"label": label, "path": path, "purpose": purpose, "now": now}


def _count(many: int, what: str) -> str:
    plural = "es" if what.endswith("s") else "s"
    return f"{many} {what}{'' if many == 1 else plural}"


def describe_settings(settings: Settings) -> list[dict[str, Any]]:
    """Return each setting as a JSON object: name, value, default, unit, help, option, variable, and its source.

    `source` is the option or variable that set the value, empty for a default. `is_changed` says whether the value
    differs from the default. Values are texts as on the command line, without secrets.
    """
    sources = dict(settings.set_by)
    rows = []
    for row in Settings.rows():
        value = getattr(settings, row.name)
        rows.append(
            {
                "name": row.name,
                "value": display_value(row, value),
                "default": display_value(row, row.default),
                "unit": row.metadata["unit"],
                "help": row.metadata["help"],
                "option": "--" + row.name.replace("_", "-"),
                "variable": PREFIX + row.name.upper(),
                "source": sources.get(row.name, ""),
                "is_changed": row.name in sources or value != row.default,
            }
        )
    return rows


def hub_blueprint(site: Site, services: HubServices) -> Blueprint:
    """The route `/settings`."""
    views = _HubViews(site, services)
    pages = Blueprint("hub", __name__)
    pages.add_url_rule(PAGE, "show", views.show)
    return pages
