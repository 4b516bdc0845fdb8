"""/healthz says that the process answers; /readyz that it may get work: the store answers and no drain has begun."""

from __future__ import annotations

from flask import Blueprint, Response

from patchbay.catalogue.catalogue import Catalogue
from patchbay.serving.drain import Drain


def health_blueprint(catalogue: Catalogue, drain: Drain) -> Blueprint:
    """The two routes: 200 or 503, with a sentence."""
    blueprint = Blueprint("health", __name__)

    @blueprint.get("/healthz")
    def healthz() -> Response:
        return _said("alive")

    @blueprint.get("/readyz")
    def readyz() -> Response:
        problem = "the hub is stopping" if drain.begun else catalogue.store.check()
        return _said(problem, 503) if problem else _said("ready")

    return blueprint


def _said(sentence: str, status: int = 200) -> Response:
    response = Response(sentence + "\n", status, mimetype="text/plain")
    response.headers["Cache-Control"] = "no-store"
    return response
