"""The home page and the list of servers, as HTML and as JSON. Both pages only read."""

from __future__ import annotations

from flask import Blueprint, Response

from patchbay.web.pages.answers import list_answer, render_answer
from patchbay.web.pages.mcp import list_snippets
from patchbay.web.site import Site, base_url


class _Views:
    """One method for each page."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store

    def home(self) -> Response:
        data = {"snippets": list_snippets(self._site, "", f"{base_url()}/mcp"), "servers": self._site.summaries()}
        return render_answer(self._site, "home.html", "home", data)

    def servers(self) -> Response:
        rows = self._site.summaries()
        return list_answer(self._site, "servers.html", "servers", rows, servers=rows)


def pages_blueprint(site: Site) -> Blueprint:
    """The routes `/` and `/servers`."""
    views = _Views(site)
    pages = Blueprint("pages", __name__)
    pages.add_url_rule("/", "home", views.home)
    pages.add_url_rule("/servers", "servers", views.servers)
    return pages
