"""`/openapi.json`: the OpenAPI document of the hub, made from the table of routes; and the URLs that end with `.json`.

Source: OpenAPI 3.1.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from flask import Blueprint, Flask, Response, request

from patchbay import __version__
from patchbay.web.openapi.route_shapes import SCHEMAS
from patchbay.web.openapi.route_table import TEXT, Query, Route, Schema, schema_ref
from patchbay.web.openapi.routes import ALL_ROUTES
from patchbay.web.site.answers import json_answer

JSON = "application/json"
DESCRIPTION = (
    "Every page of the hub is also available as JSON: send `Accept: application/json`, or add `.json` to its path."
    " This document does not describe MCP; see its specification."
)
_PATH_PARAMETER = re.compile(r"<(\w+)>")


def build_document(prefix: str = "") -> dict[str, Any]:
    """Build the OpenAPI document of a hub, whose paths are below `prefix`."""
    paths: dict[str, dict[str, Any]] = {}
    for row in ALL_ROUTES:
        paths.setdefault(to_openapi_path(row.path), {})[row.method.lower()] = _operation(row)
        if row.suffixed:
            paths.setdefault(to_openapi_path(row.suffixed), {})["get"] = _operation(row, twin=True)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Patchbay", "version": __version__, "description": DESCRIPTION},
        **({"servers": [{"url": prefix}]} if prefix else {}),
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "operator": {"type": "http", "scheme": "bearer", "description": "The operator's token."}
            },
        },
    }


def to_openapi_path(path: str) -> str:
    """Convert a path of Flask to a path of OpenAPI."""
    return _PATH_PARAMETER.sub(r"{\1}", path)


def _operation(row: Route, twin: bool = False) -> dict[str, Any]:
    """Return the operation of a route; with `json_only`, that of its `.json` URL."""
    operation: dict[str, Any] = {
        "summary": row.says,
        "operationId": _operation_id(row, twin),
        "parameters": [_path_parameter(name) for name in _PATH_PARAMETER.findall(row.path)]
        + [_query_parameter(each) for each in row.query],
        "responses": {
            **{str(status): _success_response(status, row, twin) for status in ([200] if twin else row.status)},
            "4XX": _error_response("The request is invalid; a sentence gives the reason."),
            "5XX": _error_response("A tool failed, too many streams are open, or the hub failed."),
        },
    }
    if row.body is not None:
        operation["requestBody"] = {"content": {kind: {"schema": schema} for kind, schema in row.body.items()}}
    if row.operator:
        # The empty entry is for browsers, which send the cookie of their session.
        operation["security"] = [{"operator": []}, {}]
    return operation


def _operation_id(row: Route, twin: bool) -> str:
    words = re.findall(r"\w+", row.path) or ["home"]
    return "_".join([row.method.lower(), *words, *(["json"] if twin else [])])


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": TEXT}


def _query_parameter(query: Query) -> dict[str, Any]:
    parameter = {"name": query.name, "in": "query", "description": query.says, "schema": query.schema}
    return parameter | ({"required": True} if query.required else {})


def _success_response(status: int, row: Route, twin: bool) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if status in (200, 201):
        if twin and row.twin:
            content[JSON] = {"schema": schema_ref("Links")}
        elif row.json is not None:
            content[JSON] = {"schema": row.json}
        if not twin and (row.page or (row.json is None and not row.other)):
            content["text/html"] = {"schema": TEXT}
        if row.other and not twin:
            content[row.other] = {}
    elif status == 503:
        content["text/plain"] = {"schema": TEXT}
    return {"description": HTTPStatus(status).phrase} | ({"content": content} if content else {})


def _error_response(says: str) -> dict[str, Any]:
    error: Mapping[str, Schema] = {"anyOf": [schema_ref("Error"), schema_ref("Rpc")]}  # type: ignore[dict-item]
    content = {JSON: {"schema": error}, "text/plain": {"schema": TEXT}, "text/html": {"schema": TEXT}}
    return {"description": says, "content": content}


def openapi_blueprint() -> Blueprint:
    """The route `/openapi.json`."""
    blueprint = Blueprint("openapi", __name__)

    @blueprint.get("/openapi.json")
    def openapi() -> Response:
        return json_answer(build_document(request.script_root))

    return blueprint


def add_json_addresses(app: Flask) -> None:
    """Add a route that ends with `.json` for every page of the table, unless the app has a route at that path."""
    known = {rule.rule for rule in app.url_map.iter_rules()}
    views = {rule.rule: rule.endpoint for rule in app.url_map.iter_rules() if "GET" in (rule.methods or ())}
    for row in ALL_ROUTES:
        if row.suffixed and row.suffixed not in known and row.path in views:
            endpoint = views[row.path]
            app.add_url_rule(row.suffixed, f"{endpoint}_as_json", app.view_functions[endpoint])
