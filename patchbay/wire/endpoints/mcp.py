"""MCP over HTTP: POST, GET and DELETE on /mcp/<server> and on /mcp (all servers), for all revisions.

It reads the request, the dispatcher admits and answers it, and then this module chooses JSON or a stream after the
first message, so that an early error keeps its HTTP status. Order of checks, after those of the pipeline: path, method,
media types, size, JSON, envelope, then those of admission.
Source: MCP specification, basic/transports (Streamable HTTP).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from patchbay import jsonrpc
from patchbay.activation import CancelFlag
from patchbay.catalogue.servers.server import Server
from patchbay.coordination.process_liveness import Heartbeat
from patchbay.errors import InvalidRequest, OverQuota, PatchbayError
from patchbay.events import Pause
from patchbay.jsonrpc import Failure, Id, Message, Result, Sign, failure, message, parse, readable_id
from patchbay.messages.callers import Caller, TransportInfo
from patchbay.protocol.admission.admission import claims, modern_header
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.incidents import incident
from patchbay.protocol.results.event_limits import is_too_large
from patchbay.protocol.streams.replay import LISTENER, Replay, parse_event_id
from patchbay.settings import Settings
from patchbay.text_cache import cached_by_text
from patchbay.wire.endpoints.surviving_replies import SurvivingReplies
from patchbay.wire.pipes.batches import answer_batch
from patchbay.wire.replies.accept import JSON, accepted_forms, wants_html
from patchbay.wire.replies.reply import (
    Later,
    ListeningBody,
    Reply,
    busy,
    json_reply,
    refusal,
    stream_reply,
)
from patchbay.wire.replies.sse import listener_body, replay_body, stream_body, subscription_body
from patchbay.wire.requests.base_urls import find_base_url
from patchbay.wire.requests.bodies import check_json, is_small, mcp_headers, read_body, without_padding
from patchbay.wire.requests.cross_origin import with_cors
from patchbay.wire.requests.request import Request

log = logging.getLogger(__name__)

PATH = "/mcp"
HELD_BACK_SECONDS = 15.0
"""Seconds for which a call without an event to send keeps the head of its answer back, so that a result of any size is
JSON. Proxies wait at least twice as long for a head (docs/operation.md)."""

Leave = Callable[[], None] | None
"""Cancels the call of a client that has left; None for a call that goes on then."""

LISTENING = frozenset(("subscriptions/listen", "events/stream"))
"""Methods whose answer is a stream that waits without a thread."""


class McpOverHttp:
    """Answers MCP requests. `is_operator` says whether the operator sent a request."""

    def __init__(
        self, dispatcher: Dispatcher, settings: Settings, is_operator: Callable[[Request], bool] = lambda _: False
    ) -> None:
        self._is_operator = is_operator
        self.dispatcher = dispatcher
        self.settings = settings
        self._heartbeat = Heartbeat(dispatcher.services.catalogue.store)
        self._surviving = SurvivingReplies(dispatcher, settings, self._heartbeat)

    def find(self, request: Request) -> Callable[[Request], Reply] | None:
        """Return what answers a request, None for one that is not for MCP (pages, deeper paths)."""
        endpoint = find_endpoint(request.path)
        if endpoint == "" and request.method in ("GET", "HEAD") and not _takes_stream(request):
            return None  # a browser at /mcp gets the page; a client asks for a stream in `Accept`
        return None if endpoint is None else partial(self._reply, endpoint)

    def _reply(self, endpoint: str, request: Request) -> Reply:
        reply = self.reply(request, endpoint)
        return with_cors(request, reply) if "origin" in request.headers else reply

    def reply(self, request: Request, endpoint: str) -> Reply:
        """Return the answer to a request; errors are JSON-RPC messages, never a page."""
        try:
            operator = "@" in endpoint and self._is_operator(request)
            server = self.dispatcher.server(endpoint, request.sender, operator)
            if request.method == "POST":
                return self._post(request, endpoint, server, operator)
            return self._by_method(request, endpoint, server, operator)
        except Exception as problem:
            return _reply_to_error(problem, f"{request.method} /mcp/{endpoint}")

    def _by_method(self, request: Request, endpoint: str, server: Server, operator: bool) -> Reply:
        """Return the answer of a server. `operator` says that the sender is proved to be the operator; only a pinned
        address checks that, because it may name a server that only the operator gets.
        """
        method, accept = request.method, request.headers.get("accept", "")
        if method == "OPTIONS":
            return Reply(204)
        if method not in ("GET", "DELETE"):
            return refusal(405, "this address accepts GET, POST and DELETE", ("Allow", "GET, POST, DELETE"))
        if method == "GET" and wants_html(accept):
            return Reply(303, headers=[("Location", f"{request.prefix}/servers/{endpoint}")])
        if modern_header(mcp_headers(request.headers).get("mcp-protocol-version")):
            return refusal(405, "this address accepts only POST in this revision", ("Allow", "POST"))
        if method == "DELETE":
            return self._delete(self._session(request, endpoint, operator))
        if not _takes_stream(request):
            return refusal(406, "GET returns a stream here: Accept has to name text/event-stream")
        return self._get(request, self._session(request, endpoint, operator), server)

    def _post(self, request: Request, endpoint: str, server: Server, operator: bool) -> Reply:
        check_json(request)
        json, stream = accepted_forms(request.headers.get("accept", ""))
        if not (json or stream):
            return refusal(406, f"Accept has to name {JSON} and text/event-stream")
        wire = TransportInfo(
            endpoint,
            mcp_headers(request.headers),
            request.sender,
            stream,
            strict=not endpoint,
            operator=operator,
            find_base_url=partial(find_base_url, request),
            shows_raised=partial(self._is_operator, request),
            give_back_body=request.body.release,
            find_header=request.headers.get,
        )
        return self._reply_to_body(read_body(request, self.settings.body_limit), wire, server)

    def _reply_to_body(self, body: bytes, wire: TransportInfo, server: Server) -> Reply:
        value = parse(body)
        if isinstance(value, list):
            return self._batch(value, wire, server)
        try:
            sent = message(value)
        except PatchbayError as problem:
            return json_reply(failure(readable_id(value), problem), problem.status)
        return self._answer(sent, wire, server)

    def _answer(self, sent: Message, wire: TransportInfo, server: Server) -> Reply:
        try:
            caller = self.dispatcher.admit(sent, wire)
            name = self._surviving.name(sent, caller, server) if isinstance(sent, jsonrpc.Request) else None
        except PatchbayError as problem:
            return json_reply(failure(sent.id if isinstance(sent, jsonrpc.Request) else None, problem), problem.status)
        if isinstance(sent, jsonrpc.Request) and sent.method in LISTENING and caller.revision.modern:
            return self._listen(sent, caller, server)
        if name is not None and isinstance(sent, jsonrpc.Request):
            request, named = sent, name
            return self._in_place(lambda: self._surviving.reply(request, caller, server, named), caller.wire, sent.id)
        flag = CancelFlag()
        answers = self.dispatcher.answer(sent, caller, server, cancelled=flag)
        if not isinstance(sent, jsonrpc.Request):
            for _ in answers:
                pass
            return _with_session(Reply(202), caller)
        leave = flag.leave if caller.revision.modern else None
        return _with_session(self._reply_in_form(sent, caller, answers, leave), caller)

    def _reply_in_form(
        self, sent: jsonrpc.Request, caller: Caller, answers: Iterator[Message | Sign], leave: Leave
    ) -> Reply:
        """Return JSON or a stream, chosen by the first answer."""
        first = next(answers, None)
        if isinstance(first, Result) and "_meta" not in sent.params:
            return json_reply(first)  # it wants no progress
        if isinstance(first, Pause) and not (caller.wire.streams and _wants_progress(sent)):
            return Reply(later=self._reply_later(first, sent, caller, answers, leave), leave=leave)
        return self._reply_with(first, sent, caller, answers, leave)

    def _reply_later(
        self,
        first: Message | Sign | None,
        sent: jsonrpc.Request,
        caller: Caller,
        answers: Iterator[Message | Sign],
        leave: Leave,
    ) -> Later:
        """Return the reply to a call that still runs, after the first message for which a reply is chosen.

        A stream may begin after HELD_BACK_SECONDS. A resource may be larger than an event of a stream, so it has none.
        """
        begun = time.monotonic()
        may_stream = caller.wire.streams and sent.method != "resources/read"
        try:
            while _is_more(first) and (isinstance(first, Pause) or not caller.wire.streams):
                if may_stream and time.monotonic() - begun >= HELD_BACK_SECONDS:
                    break
                if isinstance(first, Pause):
                    yield first.wait
                first = next(answers, None)
            return self._reply_with(first, sent, caller, answers, leave)
        except GeneratorExit:
            closing = getattr(answers, "close", None)
            if closing is not None:
                closing()
            raise
        except Exception as problem:
            return _reply_to_error(problem, f"POST /mcp/{caller.wire.endpoint}")

    def _reply_with(
        self,
        first: Message | Sign | None,
        sent: jsonrpc.Request,
        caller: Caller,
        answers: Iterator[Message | Sign],
        leave: Leave,
    ) -> Reply:
        wants_stream = _is_more(first) or (_wants_progress(sent) and not (is_too_large(first) or _is_refused(first)))
        if caller.wire.streams and not isinstance(first, Failure) and wants_stream:
            return self._stream(sent, caller, first, answers, leave)
        while first is not None and not isinstance(first, (Result, Failure)):
            first = next(answers, None)
        if first is None:
            # A cancelled request gets no answer.
            return Reply(202)
        return json_reply(first, first.status if isinstance(first, Failure) else 200)

    def _stream(
        self,
        sent: jsonrpc.Request,
        caller: Caller,
        first: Message | Sign | None,
        answers: Iterator[Message | Sign],
        leave: Leave,
    ) -> Reply:
        services = self.dispatcher.services
        keep = services.keep(caller.wire.principal)
        body = stream_body(first, answers, sent, caller, self._heartbeat, self.settings, keep, leave, services.ledger)
        self.dispatcher.streams.add(body)
        return stream_reply(body)

    def _listen(self, sent: jsonrpc.Request, caller: Caller, server: Server) -> Reply:
        if not caller.wire.streams:
            return refusal(406, f"{sent.method} is answered by a stream: Accept has to name text/event-stream")
        # A copy of the headers: those of the request keep all of it, which no stream needs.
        headers, give_back_body = dict(caller.wire.headers or {}), caller.wire.give_back_body
        wire = caller.wire._replace(
            waits=True, headers=headers, find_base_url=str, give_back_body=bool, find_header=headers.get
        )
        caller = caller._replace(wire=wire)
        sent = without_padding(sent)

        def begin() -> Reply:
            answers = self.dispatcher.answer(sent, caller, server)
            first = next(answers, None)
            if isinstance(first, Failure):
                return json_reply(first, first.status)
            keep = self.dispatcher.services.keep(caller.wire.principal)
            if is_small(sent):
                give_back_body()
            body = ListeningBody(subscription_body(first, answers, keep))
            self.dispatcher.streams.add(body)
            return stream_reply(body)

        return self._in_place(begin, caller.wire, sent.id)

    def _in_place(self, begin: Callable[[], Reply], wire: TransportInfo, id: Id | None = None) -> Reply:
        """Return a reply that holds a slot for listening streams until its end; a refusal holds none."""
        try:
            release = self.dispatcher.places.open(wire.sender, wire.endpoint.partition("@")[0])
        except OverQuota as problem:
            return json_reply(failure(id, problem), problem.status)
        if release is None:
            return busy(id)
        try:
            reply = begin()
        except BaseException:
            release()
            raise
        if isinstance(reply.body, bytes):
            release()
        else:
            reply.at_close = release
        return reply

    def _batch(self, values: list[Any], wire: TransportInfo, server: Server) -> Reply:
        claimed = any(claims(value["params"]) for value in values if _has_params(value))
        if claimed or modern_header(wire.version):
            raise InvalidRequest("an array of messages is not served in this revision")
        status, body, session_id = answer_batch(values, wire, self.dispatcher, server)
        reply = Reply(status, body, JSON if body else None)
        if session_id:
            reply.headers.append(("Mcp-Session-Id", session_id))
        return reply

    def _get(self, request: Request, caller: Caller, server: Server) -> Reply:
        session, sender = caller.session, caller.wire.sender
        assert session is not None
        services, last = self.dispatcher.services, parse_event_id(request.headers.get("last-event-id", ""))
        if last is not None and last[0] != LISTENER:
            times = self.settings.keepalive, self.settings.replay_minutes * 60
            is_current = partial(services.access.is_current, sender)
            replay = Replay(self._heartbeat.liveness, session, last[0], *times, is_current)
            if not replay.is_stored():
                return refusal(400, "Last-Event-ID names no event of this session; it may be too old")
            body = replay_body(replay(last[1]))
        else:
            changes = services.listeners.stream(server, session, last[1] if last else None, sender)
            body = listener_body(changes, caller.revision)
        reply = self._in_place(lambda: stream_reply(ListeningBody(body)), caller.wire)
        return _with_session(reply, caller)

    def _delete(self, caller: Caller) -> Reply:
        session = caller.session
        assert session is not None
        self.dispatcher.end(session, "the session was ended")
        return Reply(204)

    def _session(self, request: Request, endpoint: str, operator: bool) -> Caller:
        wire = TransportInfo(endpoint, mcp_headers(request.headers), request.sender, operator=operator)
        if wire.session_id is None:
            raise InvalidRequest("Mcp-Session-Id is missing: send initialize first, then name its session here")
        session = self.dispatcher.services.sessions.find(wire.session_id, endpoint, wire.principal)
        return Caller(session.revision, session.capabilities, session.level, wire, session)


@cached_by_text(1024)
def find_endpoint(path: str) -> str | None:
    """Return the address below /mcp of a path, empty for all servers; None if it is not for MCP."""
    if not path.startswith(PATH):
        return None
    rest = path[len(PATH) :]
    if rest in ("", "/"):
        return ""
    name = rest[1:].removesuffix("/")
    # `server-card` is the card of all servers (SEP-2127), which a page serves.
    return name if rest[0] == "/" and name and "/" not in name and name != "server-card" else None


def _takes_stream(request: Request) -> bool:
    return accepted_forms(request.headers.get("accept", ""))[1]


def _reply_to_error(problem: Exception, at: str) -> Reply:
    """Return the answer to a request that failed with `problem`, which is being handled."""
    if isinstance(problem, PatchbayError):
        return json_reply(failure(None, problem), problem.status)
    return json_reply(failure(None, incident(log, f"at {at}")), 500)


def _has_params(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("params"), dict)


def _is_more(first: Message | Sign | None) -> bool:
    return first is not None and not isinstance(first, (Result, Failure))


def _is_refused(first: Message | Sign | None) -> bool:
    """Whether a quota refused the call: the header `Retry-After` is for an answer without a stream."""
    return isinstance(first, Result) and first.retry_after is not None


def _wants_progress(sent: jsonrpc.Request) -> bool:
    meta = sent.params.get("_meta")
    return sent.method == "tools/call" and isinstance(meta, dict) and "progressToken" in meta


def _with_session(reply: Reply, caller: Caller) -> Reply:
    if caller.session is not None:
        reply.headers.append(("Mcp-Session-Id", caller.session.id))
    return reply
