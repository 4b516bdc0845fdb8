"""`/openapi.json`: what the hub serves over HTTP, made from the table of routes; and the addresses that end in `.json`.

Source: OpenAPI 3.1.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from flask import Blueprint, Flask, Response

from patchbay import __version__
from patchbay.web.api.json_answers import json_answer
from patchbay.web.api.route_shapes import SHAPES
from patchbay.web.api.route_table import TEXT, Query, Route, Schema, named
from patchbay.web.api.routes import WHOLE_TABLE

JSON = "application/json"
ABOUT = (
    "Every page of the hub is there as JSON too: send `Accept: application/json`, or put `.json` behind its address."
    " MCP itself is not described here, but by its own specification."
)
_PLACE = re.compile(r"<(\w+)>")


def document() -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for row in WHOLE_TABLE:
        paths.setdefault(templated(row.path), {})[row.method.lower()] = _operation(row)
        if row.suffixed:
            paths.setdefault(templated(row.suffixed), {})["get"] = _operation(row, twin=True)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Patchbay", "version": __version__, "description": ABOUT},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": SHAPES,
            "securitySchemes": {
                "operator": {"type": "http", "scheme": "bearer", "description": "The operator's token."}
            },
        },
    }


def templated(path: str) -> str:
    """A path as OpenAPI writes it."""
    return _PLACE.sub(r"{\1}", path)


def _operation(row: Route, twin: bool = False) -> dict[str, Any]:
    """One operation; with `twin` that of its JSON alone."""
    said: dict[str, Any] = {
        "summary": row.says,
        "operationId": _id(row, twin),
        "parameters": [_place(name) for name in _PLACE.findall(row.path)] + [_query(each) for each in row.query],
        "responses": {
            **{str(status): _answer(status, row, twin) for status in ([200] if twin else row.status)},
            "4XX": _refusal("What was asked cannot be answered; a sentence says why."),
            "5XX": _refusal("A tool failed, there is no place for another stream, or the hub failed."),
        },
    }
    if row.body is not None:
        said["requestBody"] = {"content": {kind: {"schema": schema} for kind, schema in row.body.items()}}
    if row.operator:
        # The second is for a browser, which has the cookie of its session.
        said["security"] = [{"operator": []}, {}]
    return said


def _id(row: Route, twin: bool) -> str:
    words = re.findall(r"\w+", row.path) or ["home"]
    return "_".join([row.method.lower(), *words, *(["json"] if twin else [])])


def _place(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": TEXT}


def _query(query: Query) -> dict[str, Any]:
    said = {"name": query.name, "in": "query", "description": query.says, "schema": query.schema}
    return said | ({"required": True} if query.required else {})


def _answer(status: int, row: Route, twin: bool) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if status in (200, 201):
        if twin and row.twin:
            content[JSON] = {"schema": named("Links")}
        elif row.json is not None:
            content[JSON] = {"schema": row.json}
        if not twin and (row.page or (row.json is None and not row.other)):
            content["text/html"] = {"schema": TEXT}
        if row.other and not twin:
            content[row.other] = {}
    elif status == 503:
        content["text/plain"] = {"schema": TEXT}
    return {"description": HTTPStatus(status).phrase} | ({"content": content} if content else {})


def _refusal(says: str) -> dict[str, Any]:
    error: Mapping[str, Schema] = {"anyOf": [named("Error"), named("Rpc")]}  # type: ignore[dict-item]
    content = {JSON: {"schema": error}, "text/plain": {"schema": TEXT}, "text/html": {"schema": TEXT}}
    return {"description": says, "content": content}


def openapi_blueprint() -> Blueprint:
    """`/openapi.json`."""
    blueprint = Blueprint("openapi", __name__)

    @blueprint.get("/openapi.json")
    def openapi() -> Response:
        return json_answer(document())

    return blueprint


def give_json_addresses(app: Flask) -> None:
    """Give every page of the table its address that ends in `.json`, where the app has none of its own there yet."""
    known = {rule.rule for rule in app.url_map.iter_rules()}
    views = {rule.rule: rule.endpoint for rule in app.url_map.iter_rules() if "GET" in (rule.methods or ())}
    for row in WHOLE_TABLE:
        if row.suffixed and row.suffixed not in known and row.path in views:
            endpoint = views[row.path]
            app.add_url_rule(row.suffixed, f"{endpoint}_as_json", app.view_functions[endpoint])
