"""MCP over HTTP: POST, GET and DELETE on /mcp/<server>, for all revisions.

Decides nothing about MCP: it reads the request, lets the dispatcher admit and answer it, and chooses
JSON or a stream after the first message, so that a quick error keeps its status.
Order of checks: Host and Origin, path, method, media types, size, JSON, envelope, then admission's.
Sources: DESIGN sections 7 and 11; SPEC-DIGEST 1.2, 1.3, 2.1; REQUIREMENTS T9.*.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from flask import Blueprint, Response, request

from patchbay.cid import cid_of
from patchbay.errors import InvalidRequest, PatchbayError
from patchbay.jsonrpc import (
    Failure,
    Message,
    Rendered,
    Request,
    Result,
    Sign,
    encode,
    failure,
    message,
    parse,
    readable_id,
)
from patchbay.protocol.admission import claims, modern_header
from patchbay.protocol.callers import Caller, Wire
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.streams import LISTENER, Replay, parse_event_id
from patchbay.settings import Settings
from patchbay.transports.batches import answer_batch
from patchbay.transports.bodies import accepted, headers_of, media_type, read_body
from patchbay.transports.site import wants_html
from patchbay.transports.sse import listener_body, replay_body, stream_body

JSON = "application/json"
CORS_HEADERS = (
    "content-type",
    "accept",
    "authorization",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "last-event-id",
)
METHODS = ("GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH")


class Endpoint:
    """The views of /mcp/<server>."""

    def __init__(self, dispatcher: Dispatcher, settings: Settings) -> None:
        self.dispatcher = dispatcher
        self.settings = settings
        self._listeners = threading.BoundedSemaphore(max(1, settings.listeners))

    def view(self, endpoint: str) -> Response:
        """Any request to an endpoint; errors are JSON-RPC messages, never a page."""
        try:
            self.dispatcher.server(endpoint)
            method = request.method
            if method == "POST":
                return self._post(endpoint)
            if method == "OPTIONS":
                return Response(status=204)
            version = request.headers.get("MCP-Protocol-Version")
            if method == "GET" and wants_html(request.headers.get("Accept", "")):
                return Response(status=303, headers={"Location": f"/mcp/meta/{endpoint}"})
            if method not in ("GET", "DELETE") or modern_header(version and version.strip()):
                return _not_allowed("POST" if method in ("GET", "DELETE") else "GET, POST, DELETE")
            return self._get(endpoint) if method == "GET" else self._delete(endpoint)
        except PatchbayError as problem:
            return reply(failure(None, problem), problem.status)

    def _post(self, endpoint: str) -> Response:
        environ = request.environ
        kind = environ.get("CONTENT_TYPE") or ""
        if media_type(kind) != JSON:
            return _refused(415, f"Content-Type has to be {JSON}; it is {kind or 'missing'}")
        if environ.get("HTTP_CONTENT_ENCODING", "identity") != "identity":
            return _refused(415, "Content-Encoding is not served: send the body as it is")
        json, stream = accepted(environ.get("HTTP_ACCEPT", ""))
        if not (json or stream):
            return _refused(406, f"Accept has to name {JSON} and text/event-stream")
        value = parse(read_body(environ, self.settings.body_limit))
        wire = Wire(endpoint, headers_of(environ), streams=stream)
        if isinstance(value, list):
            return self._batch(value, wire)
        try:
            said = message(value)
        except PatchbayError as problem:
            return reply(failure(readable_id(value), problem), problem.status)
        return self._answer(said, wire, stream)

    def _answer(self, said: Message, wire: Wire, stream: bool) -> Response:
        caller: Caller | None = None
        id = said.id if isinstance(said, Request) else None
        try:
            caller = self.dispatcher.admit(said, wire)
            server = self.dispatcher.server(wire.endpoint)
        except PatchbayError as problem:
            return reply(failure(id, problem), problem.status)
        if isinstance(said, Request) and said.method == "subscriptions/listen" and caller.revision.modern:
            return self._listen(said, caller, stream)
        answers = self.dispatcher.answer(said, caller, server)
        if not isinstance(said, Request):
            for _ in answers:
                pass
            return _with_session(Response(status=202), caller)
        return self._shaped(said, caller, answers, stream)

    def _shaped(self, said: Request, caller: Caller, answers: Iterator[Message | Sign], stream: bool) -> Response:
        """JSON or a stream, chosen by the first thing that comes (DESIGN section 7)."""
        first = next(answers, None)
        if stream and not isinstance(first, Failure) and (_is_more(first) or _wants_progress(said)):
            body = stream_body(first, answers, caller, self.dispatcher.desk, self.settings)
            return _with_session(_stream(body), caller)
        while first is not None and not isinstance(first, (Result, Failure)):
            first = next(answers, None)
        if first is None:
            # Cancelled: nothing is answered.
            return _with_session(Response(status=202), caller)
        return _with_session(reply(first, first.status if isinstance(first, Failure) else 200), caller)

    def _listen(self, said: Request, caller: Caller, stream: bool) -> Response:
        if not stream:
            return _refused(406, "subscriptions/listen is answered by a stream: Accept has to name text/event-stream")
        if not self._listeners.acquire(blocking=False):
            return _busy(said.id)
        answers = self.dispatcher.answer(said, caller, self.dispatcher.server(caller.wire.endpoint))
        first = next(answers, None)
        if isinstance(first, Failure):
            response = reply(first, first.status)
        else:
            response = _stream(stream_body(first, answers, caller, self.dispatcher.desk, self.settings))
        response.call_on_close(self._listeners.release)
        return response

    def _batch(self, values: list[Any], wire: Wire) -> Response:
        claimed = any(claims(value["params"]) for value in values if _has_params(value))
        if claimed or modern_header(wire.version):
            raise InvalidRequest("an array of messages is not served in this revision")
        status, body, session_id = answer_batch(values, wire, self.dispatcher)
        response = Response(body, status, mimetype=JSON if body else None)
        if session_id:
            response.headers["Mcp-Session-Id"] = session_id
        return response

    def _get(self, endpoint: str) -> Response:
        if not accepted(request.headers.get("Accept", ""))[1]:
            return _refused(406, "this address gives a stream to GET: Accept has to name text/event-stream")
        caller = self._session(endpoint)
        session = caller.session
        assert session is not None
        server = self.dispatcher.server(endpoint)
        desk, last = self.dispatcher.desk, parse_event_id(request.headers.get("Last-Event-ID", ""))
        if last is not None and last[0] != LISTENER:
            replay = Replay(desk.catalogue.store, session, last[0], self.settings.keepalive)
            if not replay.known():
                return _refused(400, "Last-Event-ID names no event of this session; it may be too old")
            return _with_session(_stream(replay_body(replay(last[1]))), caller)
        if not self._listeners.acquire(blocking=False):
            return _busy(None)
        after = last[1] if last is not None else None
        changes = desk.listeners.stream(server, session, after)
        response = _with_session(_stream(listener_body(changes, caller)), caller)
        response.call_on_close(self._listeners.release)
        return response

    def _delete(self, endpoint: str) -> Response:
        session = self._session(endpoint).session
        assert session is not None
        desk = self.dispatcher.desk
        desk.sessions.change(session, ended=True)
        desk.running.cancel_all(session.nonce, "the session was ended")
        desk.catalogue.store.bus.publish(f"session/{session.nonce}")
        return Response(status=204)

    def _session(self, endpoint: str) -> Caller:
        wire = Wire(endpoint, headers_of(request.environ))
        if wire.session_id is None:
            raise InvalidRequest("Mcp-Session-Id is missing: send initialize first, then name its session here")
        session = self.dispatcher.desk.sessions.find(wire.session_id, endpoint, wire.principal)
        return Caller(session.revision, session.capabilities, session.level, wire, session)


def _has_params(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("params"), dict)


def _is_more(first: Message | Sign | None) -> bool:
    return first is not None and not isinstance(first, (Result, Failure))


def _wants_progress(said: Request) -> bool:
    meta = said.params.get("_meta")
    return said.method == "tools/call" and isinstance(meta, dict) and "progressToken" in meta


def reply(answer: Result | Failure | Message, status: int) -> Response:
    """One message as a JSON response."""
    response = Response(encode(answer), status, content_type=JSON)
    if isinstance(answer, Result) and isinstance(answer.result, Rendered):
        response.headers["ETag"] = f'"{_list_cid(answer.result.data)}"'
    return response


@lru_cache(maxsize=512)
def _list_cid(rendered: bytes) -> str:
    """The CID of a rendered list: its ETag, exact because it is made of what is sent."""
    return cid_of(rendered)


def _refused(status: int, sentence: str) -> Response:
    return reply(failure(None, InvalidRequest(sentence)), status)


def _busy(id: Any) -> Response:
    response = reply(failure(id, PatchbayError("too many open streams; try again later")), 503)
    response.headers["Retry-After"] = "5"
    return response


def _not_allowed(allow: str) -> Response:
    response = _refused(405, f"this address takes {allow}")
    response.headers["Allow"] = allow
    return response


def _stream(body: Iterator[bytes]) -> Response:
    response = Response(body, content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-cache"
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _with_session(response: Response, caller: Caller) -> Response:
    if caller.session is not None:
        response.headers["Mcp-Session-Id"] = caller.session.id
    return response


def with_cors(response: Response) -> Response:
    """What lets an allowed browser origin read the answer. Whoever is not allowed was refused before (T9.9, T14.4)."""
    origin = request.environ.get("HTTP_ORIGIN")
    if origin:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Expose-Headers"] = "Mcp-Session-Id, ETag"
        response.vary.add("Origin")
        if request.method == "OPTIONS":
            asked = request.headers.get("Access-Control-Request-Headers", "")
            extra = [name for name in map(str.strip, asked.lower().split(",")) if name.startswith("mcp-param-")]
            response.headers["Access-Control-Allow-Headers"] = ", ".join([*CORS_HEADERS, *extra])
            response.headers["Access-Control-Allow-Methods"] = "GET, POST, DELETE"
            response.headers["Access-Control-Max-Age"] = "600"
    return response


def mcp_blueprint(dispatcher: Dispatcher, settings: Settings) -> Blueprint:
    """The routes of MCP over HTTP."""
    blueprint = Blueprint("mcp", __name__)
    endpoint = Endpoint(dispatcher, settings)
    blueprint.after_request(with_cors)
    blueprint.add_url_rule("/mcp/<endpoint>", "server", endpoint.view, methods=METHODS, provide_automatic_options=False)
    return blueprint
