"""Buttons of the operator that switch a server on or off, restart it, remove it, and bring a removed one back.

The changes are those of `patchbay enable`, `disable`, `restart`, `remove` and `restore`. Each has a way back:
the button that undoes it is on the page to which the browser is redirected. Further buttons allow the tools of a
server to change a folder, and a mounted program to read a place and to reach a host; the page of its past undoes them.
Two buttons put a built-in server into the list at /mcp and take it out.
"""

from __future__ import annotations

from urllib.parse import quote

from flask import Blueprint, Response

from patchbay.catalogue.operating.allowed_folders import allow_place
from patchbay.catalogue.operating.allowed_hosts import allow_host
from patchbay.catalogue.operating.hub_list import list_server
from patchbay.catalogue.operating.removal import remove_server, restore_server
from patchbay.catalogue.operating.switching import request_restart, switch_server
from patchbay.errors import ConfigError, InvalidParams
from patchbay.processes.confinement.denials import READS, WRITES
from patchbay.settings import hub_places
from patchbay.web.operator.changes import find_author, follow_folder, read_change_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.servers.mcp import find_shown_server
from patchbay.web.site.data import page_path
from patchbay.web.site.site import Site

ON, OFF, RESTART, REMOVE, RESTORE, NETWORK = "on", "off", "restart", "remove", "restore", "network"
LISTED, UNLISTED = "listed", "unlisted"


class _SwitchingViews:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store
        self._folder = site.settings.servers

    def change(self, name: str) -> Response:
        """POST /servers/<name>/settings with `do`: on, off, restart, remove, writes, reads, network, listed, unlisted.

        With writes and reads comes a `folder`, with network a `host`. Raises Refused, ReadOnly,
        UnknownServer, InvalidParams.
        """
        fields = read_change_form(self._site)
        do, who = fields.get("do", ""), find_author(self._site)
        server, _ = find_shown_server(self._site, name)
        known = (ON, OFF, RESTART, REMOVE, WRITES, READS, NETWORK, LISTED, UNLISTED)
        if do not in known:
            raise InvalidParams(f"do must be one of {', '.join(known)}; it is {do!r:.60}")
        try:
            if do == RESTART:
                request_restart(self._store, server.name)
            elif do == REMOVE:
                remove_server(self._store, self._folder, server.name, who)
            elif do in (LISTED, UNLISTED):
                follow_folder(self._site)
                list_server(self._store, server.name, self._site.catalogue.listing, do == LISTED, who)
            elif do in (WRITES, READS):
                line = (do, fields.get("folder", "").strip())
                hub = hub_places(self._site.settings)
                allow_place(self._store, self._folder, server.name, server.origin, server.config, line, who, hub)
            elif do == NETWORK:
                host = fields.get("host", "").strip()
                allow_host(self._store, self._folder, server.name, server.origin, server.config, host)
            else:
                switch_server(self._store, server.name, server.origin, server.config, do == ON, who)
        except ConfigError as problem:
            raise InvalidParams(problem.message) from problem
        follow_folder(self._site)
        if do == REMOVE:
            return redirect_to(f"/servers?removed={quote(server.name, safe='')}")
        return redirect_to(f"{page_path(server.name)}/settings?done={do}")

    def restore(self) -> Response:
        """POST /servers with `name`: bring a removed server back. Raises Refused, ReadOnly, InvalidParams."""
        fields = read_change_form(self._site)
        name, do = fields.get("name", ""), fields.get("do", RESTORE)
        if do != RESTORE:
            raise InvalidParams(f"do must be {RESTORE}; it is {do!r:.60}")
        try:
            restore_server(self._store, self._folder, name, find_author(self._site))
        except ConfigError as problem:
            raise InvalidParams(problem.message) from problem
        follow_folder(self._site)
        return redirect_to(page_path(name))


def switching_blueprint(site: Site) -> Blueprint:
    """The routes `POST /servers/<name>/settings` and `POST /servers`."""
    views = _SwitchingViews(site)
    pages = Blueprint("switching", __name__)
    pages.add_url_rule("/servers/<name>/settings", "change", views.change, methods=["POST"])
    pages.add_url_rule("/servers", "restore", views.restore, methods=["POST"])
    return pages
