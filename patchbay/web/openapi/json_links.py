"""Puts the path prefix of the hub before the links in the JSON of a page, which its schema names (`LINK`).

What a server or a caller wrote has no such schema, so that it stays as it is. A hub without a prefix changes nothing.
"""

from __future__ import annotations

from typing import Any

from flask import request

from patchbay.hosts.path_prefix import add_prefix
from patchbay.web.openapi.route_shapes import SCHEMAS
from patchbay.web.openapi.route_table import LINK, Schema
from patchbay.web.openapi.routes import ALL_ROUTES

_REFERENCE = "#/components/schemas/"

_SCHEMAS_BY_RULE = {
    path: row.json
    for row in ALL_ROUTES
    if row.method == "GET" and row.json is not None
    for path in (row.path, row.suffixed)
}


def add_prefix_to_links(data: Any) -> Any:
    """Return the JSON value of the page of the current request with links that its client can follow."""
    prefix, rule = request.script_root, request.url_rule
    if not prefix or rule is None or rule.rule not in _SCHEMAS_BY_RULE:
        return data
    return _add(prefix, data, _SCHEMAS_BY_RULE[rule.rule])


def _add(prefix: str, value: Any, schema: Schema) -> Any:
    if schema is LINK:
        return add_prefix(prefix, value) if isinstance(value, str) else value
    if "$ref" in schema:
        return _add(prefix, value, SCHEMAS[schema["$ref"].removeprefix(_REFERENCE)])
    for choice in schema.get("anyOf", ()):
        value = _add(prefix, value, choice)
    if isinstance(value, dict) and "properties" in schema:
        shapes = schema["properties"]
        return {name: _add(prefix, each, shapes[name]) if name in shapes else each for name, each in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [_add(prefix, each, schema["items"]) for each in value]
    return value
