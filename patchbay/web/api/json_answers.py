"""JSON responses."""

from __future__ import annotations

from typing import Any

from flask import Response

from patchbay.jsonrpc import dump_json


def json_answer(value: Any, status: int = 200) -> Response:
    """A JSON response that caches do not store."""
    response = Response(dump_json(value), status, mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response
