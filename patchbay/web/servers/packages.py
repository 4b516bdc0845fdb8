"""`POST /servers/<name>/packages`: install the packages of a definition again after a failure."""

from __future__ import annotations

from urllib.parse import quote

from flask import Blueprint, Response

from patchbay.errors import InvalidParams
from patchbay.web.operator.changes import read_change_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.servers.mcp import find_shown_server
from patchbay.web.site.site import Site


def packages_blueprint(site: Site) -> Blueprint:
    """The route for operators. It returns to the settings of the server, which shows the progress."""
    blueprint = Blueprint("packages", __name__)

    @blueprint.post("/servers/<name>/packages")
    def install_again(name: str) -> Response:
        """Begin to install. Raises Refused, ReadOnly, UnknownServer, InvalidParams for one without requirements."""
        read_change_form(site)
        server, _ = find_shown_server(site, name)
        if server.packages is None:
            raise InvalidParams(f"{server.name} requires no packages: its definition has no block # /// script")
        server.packages.start(now=True)
        return redirect_to(f"/servers/{quote(server.name, safe='')}/settings")

    return blueprint
