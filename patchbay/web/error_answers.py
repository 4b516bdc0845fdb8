"""Errors as answers: HTML for people, JSON-RPC below /mcp and /rpc, JSON or a sentence for programs elsewhere.

Rules: a failure of the hub itself carries an incident id that is in the log too, never a trace;
showing an error must not fail, so a broken error template falls back to the shipped page.
Sources: DESIGN section 11; REQUIREMENTS VWR-28, VWR-35; THREATS 1.1 (information leak in errors).
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field
from http import HTTPStatus

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from patchbay.errors import PatchbayError
from patchbay.jsonrpc import Failure, encode
from patchbay.web.operator.operators import OperatorProof
from patchbay.web.site import Site, page, wants_html

log = logging.getLogger(__name__)

TITLES = {
    400: "That cannot be understood",
    401: "For the operator",
    403: "Not allowed",
    404: "Nothing here",
    405: "Not possible here",
    412: "It has changed meanwhile",
    413: "Too large",
    415: "Not in this form",
    421: "Wrong host",
    500: "The hub failed",
}


@dataclass(frozen=True, slots=True)
class ShownError:
    """One error, ready to be shown. `code` is the JSON-RPC code, `incident` is set for the hub's own failures."""

    status: int
    message: str
    code: int = -32600
    data: object = None
    incident: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return TITLES.get(self.status) or HTTPStatus(self.status).phrase


def trouble(problem: Exception) -> ShownError:
    """What to say about an exception. What nobody expected is logged, and named by its incident only."""
    if isinstance(problem, HTTPException):
        return _of_http(problem)
    known = isinstance(problem, PatchbayError)
    if isinstance(problem, PatchbayError) and (problem.status < 500 or problem.status == 503):
        headers = {"Allow": "GET, HEAD"} if problem.status == 405 else dict(getattr(problem, "headers", {}))
        return ShownError(problem.status, problem.message, problem.code, problem.data, headers=headers)
    incident = secrets.token_hex(6)
    log.error("incident %s at %s %s", incident, request.method, request.path, exc_info=problem)
    message = str(problem) if known else "Something went wrong inside the hub. Nothing you sent was kept."
    return ShownError(500, message, -32603, {"incident": incident}, incident)


def _of_http(problem: HTTPException) -> ShownError:
    status = problem.code or 500
    code = -32600 if status < 500 else -32603
    if isinstance(problem, NotFound):
        return ShownError(status, f"There is nothing at {request.path[:200]}.", code)
    if isinstance(problem, MethodNotAllowed):
        allowed = ", ".join(sorted(problem.valid_methods or ()))
        generic = problem.description == MethodNotAllowed.description
        message = f"{request.method} is not served here; use {allowed}." if generic else problem.description or ""
        return ShownError(status, message, code, headers={"Allow": allowed})
    return ShownError(status, problem.description or HTTPStatus(status).phrase, code)


class Failures:
    """Turns errors into answers in the form that the client wants."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def answer(self, problem: Exception) -> Response | HTTPException:
        """The answer to an exception; a redirect, which Werkzeug raises too, stays what it is."""
        if isinstance(problem, HTTPException) and problem.code is not None and problem.code < 400:
            return problem
        found = trouble(problem)
        response = self._form(found)
        response.status_code = found.status
        response.headers.extend(found.headers)
        response.headers["Cache-Control"] = "no-store"
        response.vary.add("Accept")
        return response

    def _form(self, found: ShownError) -> Response:
        accept = request.headers.get("Accept", "")
        protocol = request.path.split("/")[1] in ("mcp", "rpc")
        # A refused Host or Origin below /mcp is the protocol's matter, whatever the client would like to read.
        if wants_html(accept) and not (protocol and found.status in (403, 421)):
            return page(self._page(found, protocol))
        if protocol:
            return Response(encode(_failure(found)), mimetype="application/json")
        if "application/json" in accept:
            body = {"error": found.message} | ({"data": found.data} if found.data is not None else {})
            return Response(orjson.dumps(body), mimetype="application/json")
        tail = f" (incident {found.incident})" if found.incident else ""
        return Response(f"{found.message}{tail}\n", mimetype="text/plain")

    def _page(self, found: ShownError, protocol: bool) -> str:
        values = {name: getattr(found, name) for name in ("status", "title", "message", "incident")}
        try:
            frame = self._site.frame("")
            if protocol:
                return self._site.pages.content_page("mcp/error.html", **frame, **values)
        except Exception:
            log.exception("the error page itself cannot be shown; using the shipped one")
            site = {"version": "", "root": None, "readonly": False, "problem": None, "url": ""}
            frame = {"here": "", "site": site | {"access": "personal", "standing": OperatorProof()}}
        return self._site.pages.page("error.html", **frame, **values)


def _failure(found: ShownError) -> Failure:
    error: dict[str, object] = {"code": found.code, "message": found.message}
    if found.data is not None:
        error["data"] = found.data
    return Failure(None, error, found.status)


def register_failures(app: Flask, site: Site) -> None:
    """Let every error of an app be answered by its Failures."""
    app.register_error_handler(Exception, Failures(site).answer)
