"""`/healthz` and `/readyz` among the pages: refusals, and other methods. `serving/health.py` answers GET and HEAD."""

from __future__ import annotations

from flask import Blueprint, Response

from patchbay.serving.health import Health


def health_blueprint(health: Health) -> Blueprint:
    """The two routes; status 200 or 503, with a sentence."""
    blueprint = Blueprint("health", __name__)

    @blueprint.get("/healthz")
    def healthz() -> Response:
        return _plain_response(*health.is_alive())

    @blueprint.get("/readyz")
    def readyz() -> Response:
        return _plain_response(*health.is_ready())

    return blueprint


def _plain_response(status: int, sentence: str) -> Response:
    response = Response(sentence + "\n", status, mimetype="text/plain")
    response.headers["Cache-Control"] = "no-store"
    return response
