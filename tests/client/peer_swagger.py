# /// script
# requires-python = ">=3.11"
# dependencies = ["flask-restx>=1.3,<2", "setuptools<81"]
# ///
"""A real API as a program: flask-restx, which writes the Swagger 2 document itself. It says its port.

uv run --script peer_swagger.py
"""

from __future__ import annotations

from typing import Any

from flask import Flask, request
from flask_restx import Api, Resource, fields, reqparse
from werkzeug.serving import make_server

app = Flask(__name__)
api = Api(app, title="Trials", version="1.0")
trial = api.model("Trial", {"name": fields.String(required=True), "phase": fields.Integer})
form = reqparse.RequestParser()
form.add_argument("note", type=str, location="form", required=True)
wanted = reqparse.RequestParser()
wanted.add_argument("phase", type=int, action="split", location="args")


@api.route("/trials/<string:name>")
class Trial(Resource):
    @api.doc("getTrial")
    def get(self, name: str) -> dict[str, Any]:
        """One trial."""
        return {"name": name, "path": request.full_path}

    @api.doc("noteTrial")
    @api.expect(form)
    def post(self, name: str) -> dict[str, Any]:
        """Note something about a trial."""
        return {"name": name, **form.parse_args()}


@api.route("/trials")
class Trials(Resource):
    @api.doc("addTrial")
    @api.expect(trial)
    def post(self) -> dict[str, Any]:
        """Add a trial."""
        return {"got": request.get_json()}

    @api.doc("listTrials")
    @api.expect(wanted)
    def get(self) -> list[dict[str, Any]]:
        """All trials of some phases."""
        return [{"phase": phase} for phase in wanted.parse_args()["phase"] or [1, 2, 3]]


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, app)
    print(f"port {server.server_port}", flush=True)  # noqa: T201
    server.serve_forever()
