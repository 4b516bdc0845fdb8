"""Responses of pages: HTML for people, JSON for programs.

A client gets JSON when its `Accept` header names JSON and does not prefer HTML, and at the URL of the page with `.json`
at the end. The header `Vary: Accept` tells caches about it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, request

from patchbay.errors import InvalidParams
from patchbay.jsonrpc import dump_json
from patchbay.web.site.site import Site
from patchbay.wire.replies.accept import wants_html


def wants_json(accept: str) -> bool:
    """Whether an `Accept` header names JSON and does not prefer HTML."""
    return "application/json" in accept and not wants_html(accept)


def is_json_address() -> bool:
    """Whether the route of the current request ends with `.json`; a name that ends with `.json` does not count."""
    rule = request.url_rule
    return rule is not None and rule.rule.endswith(".json")


def parse_number(text: str, max_number: int) -> int | None:
    """Parse a whole number from 1 to `max_number` (below 10**8); None for any other text."""
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        return None
    return int(text) if 1 <= int(text) <= max_number else None


def check_number(parameter: str, text: str, max_number: int) -> int:
    """Parse the whole number of a parameter, from 1 to `max_number`. Raises InvalidParams for any other text."""
    found = parse_number(text, max_number)
    if found is None:
        raise InvalidParams(f"{parameter} must be a number from 1 to {max_number}; it is {text!r:.60}")
    return found


def render_answer(site: Site, template: str, here: str, data: dict[str, Any], **view: Any) -> Response:
    """Respond with `data` as JSON, or with a page whose template gets `data` and `view`."""
    return _respond(site, data, lambda: site.html(template, here, **data, **view))


def content_answer(site: Site, template: str, here: str, data: dict[str, Any], **view: Any) -> Response:
    """Like `render_answer`, with a content-addressed template. Raises ConfigError when the template is invalid."""
    return _respond(site, data, lambda: site.content_html(template, here, **data, **view))


def list_answer(site: Site, template: str, here: str, rows: list[dict[str, Any]], **view: Any) -> Response:
    """Respond with `rows` as a JSON array, or with a page whose template gets `view`."""
    return _respond(site, rows, lambda: site.html(template, here, **view))


def _respond(site: Site, data: Any, render_page: Callable[[], Response]) -> Response:
    json = is_json_address() or wants_json(request.headers.get("Accept", ""))
    response = json_answer(site.add_prefix_to_links(data)) if json else render_page()
    response.vary.add("Accept")
    return response


def json_answer(value: Any, status: int = 200) -> Response:
    """A JSON response that caches do not store."""
    response = Response(dump_json(value), status, mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response
