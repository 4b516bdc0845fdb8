"""`/nodes`: the living processes of all hubs on one store, with what they do."""

from __future__ import annotations

from dataclasses import asdict

from flask import Blueprint, Response

from patchbay.coordination.nodes import living_nodes
from patchbay.web.site.answers import render_answer
from patchbay.web.site.site import Site

PAGE = "/nodes"


def nodes_blueprint(site: Site) -> Blueprint:
    """The route `/nodes`."""

    def show() -> Response:
        """GET: the living processes. Raises NotOperator."""
        site.operators.check_operator()
        store = site.catalogue.store
        nodes = [asdict(node) for node in living_nodes(store)] if store.is_shared else []
        data = {"shared": store.is_shared, "nodes": nodes}
        response = render_answer(site, "nodes.html", "nodes", data)
        response.headers["Cache-Control"] = "no-store"
        return response

    pages = Blueprint("nodes", __name__)
    pages.add_url_rule(PAGE, "show", show)
    return pages
