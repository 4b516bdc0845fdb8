"""A page for people, the same as JSON for programs.

Rule: a client that names JSON and would not rather have HTML gets the data the page was made from, and so does
everybody at the page's address with `.json` behind it; caches are told that it depends on `Accept`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, request

from patchbay.web.api.json_answers import json_answer
from patchbay.web.site import Site, wants_html


def wants_json(accept: str) -> bool:
    """Whether an `Accept` header names JSON, and HTML not at least as much."""
    return "application/json" in accept and not wants_html(accept)


def at_json_address() -> bool:
    """Whether the present request came by an address that ends in `.json` by its rule, not by the name of a thing."""
    rule = request.url_rule
    return rule is not None and rule.rule.endswith(".json")


def number_in(text: str, most: int) -> int | None:
    """The whole number from 1 to `most` (below 10**8) that a query says; None for anything else."""
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        return None
    return int(text) if 1 <= int(text) <= most else None


def render_answer(site: Site, template: str, here: str, data: dict[str, Any], **view: Any) -> Response:
    """`data` as JSON, or as a page that is given `view` besides."""
    return _told(data, lambda: site.html(template, here, **data, **view))


def content_answer(site: Site, template: str, here: str, data: dict[str, Any], **view: Any) -> Response:
    """The same with a content-addressed template. Raises ConfigError when it cannot be used."""
    return _told(data, lambda: site.content_html(template, here, **data, **view))


def list_answer(site: Site, template: str, here: str, rows: list[dict[str, Any]], **view: Any) -> Response:
    """`rows` as a JSON array, or as a page that is given `view`."""
    return _told(rows, lambda: site.html(template, here, **view))


def _told(data: Any, shown: Callable[[], Response]) -> Response:
    json = at_json_address() or wants_json(request.headers.get("Accept", ""))
    response = json_answer(data) if json else shown()
    response.vary.add("Accept")
    return response
