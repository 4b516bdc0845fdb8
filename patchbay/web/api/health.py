"""`/healthz`: the process responds. `/readyz`: the process can take work, because the store responds and the hub is not
stopping.
"""

from __future__ import annotations

from flask import Blueprint, Response

from patchbay.catalogue.catalogue import Catalogue
from patchbay.serving.drain import Drain


def health_blueprint(catalogue: Catalogue, drain: Drain) -> Blueprint:
    """The two routes; status 200 or 503, with a sentence."""
    blueprint = Blueprint("health", __name__)

    @blueprint.get("/healthz")
    def healthz() -> Response:
        return _plain_response("alive")

    @blueprint.get("/readyz")
    def readyz() -> Response:
        problem = "the hub is stopping" if drain.is_draining else catalogue.store.check()
        return _plain_response(problem, 503) if problem else _plain_response("ready")

    return blueprint


def _plain_response(sentence: str, status: int = 200) -> Response:
    response = Response(sentence + "\n", status, mimetype="text/plain")
    response.headers["Cache-Control"] = "no-store"
    return response
