"""Error responses: HTML for people, JSON-RPC below /mcp and /rpc, JSON or a sentence for programs elsewhere.

An internal error has an incident number, which is also in the log; a response never holds a stack trace. When the error
template itself is broken, the hub uses the shipped page.
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
from patchbay.web.people.browsers import public_base_url
from patchbay.web.site.site import Site, html_response
from patchbay.wire.replies.accept import wants_html

log = logging.getLogger(__name__)

TITLES = {
    400: "Invalid request",
    401: "Operator only",
    403: "Not allowed",
    404: "Not found",
    405: "Not possible",
    412: "Changed in the meantime",
    413: "Too large",
    415: "Wrong content type",
    421: "Wrong host",
    500: "Internal error",
}


@dataclass(frozen=True, slots=True)
class ShownError:
    """One error for a response. `code` is the JSON-RPC code; `incident` is set for internal errors.

    `folder_page` is the page of the folder of a document that does not exist, for a link; empty for other errors.
    """

    status: int
    message: str
    code: int = -32600
    data: object = None
    incident: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    folder_page: str = ""

    @property
    def title(self) -> str:
        return TITLES.get(self.status) or HTTPStatus(self.status).phrase


EXPLAINED = (503, 507)
"""Statuses of failures that are no fault of the program: their message is for the caller."""


OF_OTHER_PAGES = (404, 405, 415)
"""Statuses that an MCP client gets which sends its messages to another page of the hub."""


def describe_error(problem: Exception) -> ShownError:
    """Describe an exception. An unexpected exception is logged, and the response holds only its incident number."""
    if isinstance(problem, HTTPException):
        return _describe_http_error(problem)
    if isinstance(problem, PatchbayError) and (problem.status < 500 or problem.status in EXPLAINED):
        headers = {"Allow": "GET, HEAD"} if problem.status == 405 else dict(getattr(problem, "headers", {}))
        folder_page = str(getattr(problem, "folder_page", ""))
        return ShownError(
            problem.status, problem.message, problem.code, problem.data, headers=headers, folder_page=folder_page
        )
    incident = secrets.token_hex(6)
    log.error("incident %s at %s %s", incident, request.method, request.path, exc_info=problem)
    message = "The hub has an internal error. It did not store your request."
    if isinstance(problem, PatchbayError):
        message = problem.message
    return ShownError(500, message, -32603, {"incident": incident}, incident)


def _describe_http_error(problem: HTTPException) -> ShownError:
    status = problem.code or 500
    code = -32600 if status < 500 else -32603
    if isinstance(problem, NotFound):
        generic = problem.description == NotFound.description
        message = f"There is no page at {request.path[:200]}." if generic else problem.description or ""
        return ShownError(status, message, code)
    if isinstance(problem, MethodNotAllowed):
        allowed = ", ".join(sorted(problem.valid_methods or ()))
        generic = problem.description == MethodNotAllowed.description
        message = (
            f"{request.method} is not allowed at this path; use {allowed}." if generic else problem.description or ""
        )
        return ShownError(status, message, code, headers={"Allow": allowed})
    return ShownError(status, problem.description or HTTPStatus(status).phrase, code)


def _describe_mcp_addresses() -> str:
    """Return the addresses that an MCP client can use, for one that sends messages to another page."""
    every = f"{public_base_url()}/mcp"
    return f"MCP clients use {every} for all servers, {every}/NAME for one server, and {every}/NAME/sse for HTTP+SSE."


class ErrorResponder:
    """Makes error responses in the form that the client accepts."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def answer(self, problem: Exception) -> Response | HTTPException:
        """The response to an exception. A redirect, which Werkzeug raises as an exception, stays a redirect."""
        if isinstance(problem, HTTPException) and problem.code is not None and problem.code < 400:
            return problem
        found = describe_error(problem)
        response = self._form(found)
        response.status_code = found.status
        response.headers.extend(found.headers)
        response.headers["Cache-Control"] = "no-store"
        response.vary.add("Accept")
        return response

    def _form(self, found: ShownError) -> Response:
        accept = request.headers.get("Accept", "")
        protocol = request.path.split("/")[1] in ("mcp", "rpc")
        # A refused Host or Origin below /mcp always gets a JSON-RPC error.
        if wants_html(accept) and not (protocol and found.status in (403, 421)):
            return html_response(self._page(found, protocol))
        if protocol:
            return Response(encode(_rpc_failure(found)), mimetype="application/json")
        message = found.message
        if found.status in OF_OTHER_PAGES and "text/event-stream" in accept:
            message = f"{message.removesuffix('.')}. {_describe_mcp_addresses()}"
        if "application/json" in accept:
            body = {"error": message} | ({"data": found.data} if found.data is not None else {})
            return Response(orjson.dumps(body), mimetype="application/json")
        tail = f" (incident {found.incident})" if found.incident else ""
        return Response(f"{message}{tail}\n", mimetype="text/plain")

    def _page(self, found: ShownError, protocol: bool) -> str:
        values = {name: getattr(found, name) for name in ("status", "title", "message", "incident", "folder_page")}
        try:
            frame = self._site.frame("")
            if protocol:
                return self._site.pages.content_page("mcp/error.html", **frame, **values)
        except Exception:
            log.exception("cannot render the error page; using the shipped page")
            site = {"version": "", "root": None, "readonly": False, "problem": None, "url": ""}
            site |= {"access": "personal", "is_operator": False, "has_operator_session": False, "person": ""}
            frame = {"here": "", "site": site}
        return self._site.pages.page("error.html", **frame, **values)


def _rpc_failure(found: ShownError) -> Failure:
    error: dict[str, object] = {"code": found.code, "message": found.message}
    if found.data is not None:
        error["data"] = found.data
    return Failure(None, error, found.status)


def register_error_handlers(app: Flask, site: Site) -> None:
    """Let an ErrorResponder handle every error of an app."""
    app.register_error_handler(Exception, ErrorResponder(site).answer)
