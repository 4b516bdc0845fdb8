"""JSON responses."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response


def json_answer(value: Any, status: int = 200) -> Response:
    """A JSON response that caches do not store."""
    response = Response(orjson.dumps(value), status, mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response
