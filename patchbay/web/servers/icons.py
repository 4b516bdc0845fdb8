"""`GET /servers/<name>/icon`: the picture of a server or, with `tool`, of one of its tools.

The hub sends the bytes itself, so a page loads nothing from other hosts. An SVG picture can hold scripts: pages show it
as `<img>`, where scripts do not run, and the answer is sandboxed for a reader who opens it alone.
"""

from __future__ import annotations

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from patchbay.cid import cid_of
from patchbay.web.rendering.icons import find_icon
from patchbay.web.servers.mcp import find_shown_server
from patchbay.web.site.site import Site
from patchbay.wire.requests.security import SANDBOX_CSP

CACHE_CONTROL = "private, no-cache"
"""A browser keeps the picture, and asks each time whether it is still the same."""


def icons_blueprint(site: Site) -> Blueprint:
    """The route `/servers/<name>/icon`."""

    def show(name: str) -> Response:
        server, _ = find_shown_server(site, name)
        tool = request.args.get("tool")
        entry = server.tools.get(tool) if tool is not None else None
        found = find_icon(server.icons if tool is None else entry.wire.get("icons") if entry else None)
        if found is None:
            raise NotFound
        response = Response(found.data, content_type=found.media_type)
        response.headers["Cache-Control"] = CACHE_CONTROL
        response.headers["Content-Security-Policy"] = SANDBOX_CSP
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.set_etag(cid_of(found.data))
        response.make_conditional(request)
        return response

    pages = Blueprint("icons", __name__)
    pages.add_url_rule("/servers/<name>/icon", "icon", show)
    return pages
