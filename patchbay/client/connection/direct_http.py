"""The short way for a plain call over HTTP: the caller's own thread sends it and takes the answer, if that comes soon.

The official client hands every request from thread to thread and task to task, which costs more than a call to a
server nearby. So a call that is plain is posted from the thread that makes it, on a connection that is kept, as the
official session would have worded it. An answer that is one JSON result, whole within PROMPT seconds, is the answer.
Whatever else comes of it (a stream, an error, a question, a refusal, silence) is handed over: the official client
makes the request once more, and its HTTP transport is given the exchange that has begun instead of sending anything.
So all rules for those stay in one place, and nothing is ever sent twice.

    Direct    the short way to one server: kept connections, and how a request is worded
    Post      one exchange that has begun: a body that either side can go on reading
    Handover  the transport of the official client's requests to that server (`handover.py`)

Only `http:` URLs go this way, without a sign-in, a proxy or cookies: over anything else what is saved is little beside
what the way costs. Sources: issue 5 part 7 (mount overhead); MCP specification, basic/transports; RFC 9112 section 9.
"""

from __future__ import annotations

import itertools
import json
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import h11
import orjson

from patchbay.client.connection.event_bodies import EventBody, decode_json
from patchbay.client.connection.requests import Item, Json, RequestRun

PLAIN_METHODS = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})
"""Methods that may go this way: one request, one answer, and nothing of the connection changes by them."""

HANDOVER_SECONDS = 0.05
"""Seconds until an exchange is handed over, and in which a new connection has to stand."""

MAX_IDLE_SECONDS, MAX_IDLE_CONNECTIONS = 4.0, 16
"""How long a connection is kept for the next call, in seconds (less than servers do: five, often), and how many."""

MAX_HEAD_BYTES = 64 * 1024
READ_BYTES = 64 * 1024
"""Bytes of the largest head of an answer, and of one reading."""

CLIENT_CAPABILITIES_META_KEY = "io.modelcontextprotocol/clientCapabilities"

AddSessionFields = Callable[[Json, Any], None]
"""Adds what belongs to every request of a session: `_meta` to the message, `headers` to the options."""

_numbers = itertools.count(1)


class HttpTarget(NamedTuple):
    """Where a server is: what to connect to, the header Host, and the target of requests."""

    host: str
    port: int
    authority: str
    target: bytes


class RequestTable(Protocol):
    """Knows which requests are out (`streams.Traffic`)."""

    def register(self, run: RequestRun, id: str) -> None: ...
    def unregister(self, run: RequestRun) -> None: ...


def make_request_id() -> str:
    """The id of a new request."""
    return f"patchbay-{next(_numbers)}"


class HttpLine:
    """One kept connection: a socket that never blocks, and what HTTP/1.1 says on it."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), HANDOVER_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self.idle_since = 0.0
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)

    def is_readable(self, seconds: float) -> bool:
        """Whether there is something to read, or the other end has gone, within so many seconds."""
        return bool(self._poll.poll(max(0.0, seconds) * 1000))


class HttpExchange:
    """An exchange that has begun. First the thread that began it reads, then, if it is handed over, the loop.

    `id` is the one that the request bears on the wire. `done` is given the line when nobody reads any more, and
    whether the answer was read to its end. With `on_item`, an answer may be an event stream too: progress and logs in
    it go there, and its end is waited for.
    """

    def __init__(
        self,
        id: str,
        line: HttpLine,
        request: tuple[h11.Request, bytes],
        done: Callable[[HttpLine, bool], None],
        on_item: Callable[[Item], None] | None = None,
    ) -> None:
        self.id = id
        self.head: h11.Response | None = None
        self.line = line
        self.pieces: list[bytes] = []
        self.complete = self.closed = False
        self.failure: Exception | None = None
        self._on_done = done
        self._size = 0
        self._events = EventBody(id, on_item) if on_item is not None else None
        http, (head, body) = line.http, request
        self.unsent = b"".join(
            part for event in (head, h11.Data(body), h11.EndOfMessage()) if (part := http.send(event))
        )

    def read_result(self, seconds: float, limit: int) -> Json | None:
        """The result, when it is whole within so many seconds and plain; else None, and this is to be handed over."""
        end = time.monotonic() + seconds
        try:
            while self.unsent:
                self.unsent = self.unsent[self.line.socket.send(self.unsent) :]
            while self._may_be_plain(limit) and not self.complete:
                if self.process_event():
                    if self._events is not None and self._events.result is not None:
                        return self._finish_stream(self._events.result)
                elif self.line.is_readable(end - time.monotonic()):
                    self.line.http.receive_data(self.line.socket.recv(READ_BYTES))
                else:
                    return None
        except BlockingIOError:
            return None
        except (OSError, h11.ProtocolError) as problem:
            self.failure = problem  # told by the loop, in its own words
            return None
        return self._parse_result() if self._may_be_plain(limit) else None

    def _finish_stream(self, result: Json) -> Json:
        """The result of an event stream, which ends a moment later."""
        end = time.monotonic() + HANDOVER_SECONDS
        while not self.complete and (self.process_event() or self.line.is_readable(end - time.monotonic())):
            if not self.complete:
                self.line.http.receive_data(self.line.socket.recv(READ_BYTES))
        return result

    def _may_be_plain(self, limit: int) -> bool:
        """Whether this may still become a plain answer."""
        if self.unsent or self._size > limit:
            return False
        if self.head is None:
            return not self.complete
        headers = dict(self.head.headers)
        kind = headers.get(b"content-type", b"")
        if self.head.status_code != 200 or headers.keys() & {b"content-encoding", b"set-cookie"}:
            return False
        if kind.startswith(b"text/event-stream"):
            return self._events is not None and self._events.is_plain
        return kind.startswith(b"application/json")

    def _parse_result(self) -> Json | None:
        try:
            return get_plain_result(decode_json(b"".join(self.pieces)))
        except ValueError:
            return None

    def process_event(self) -> bool:
        """Take in what has arrived; whether there was anything."""
        event = self.line.http.next_event()
        if event is h11.NEED_DATA:
            return False
        if isinstance(event, h11.Response):
            self.head = event
            if not dict(event.headers).get(b"content-type", b"").startswith(b"text/event-stream"):
                self._events = None
        elif isinstance(event, h11.Data):
            self.pieces.append(bytes(event.data))
            self._size += len(event.data)
            if self._events is not None and self._events.is_plain:
                self.pieces = self._events.consume(self.pieces)
        elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
            self.complete = True
        return True

    def close(self) -> None:
        """Nobody reads any more: the line is kept when all was read, else closed, which cancels a modern call."""
        if not self.closed:
            self.closed = True
            self._on_done(self.line, self.complete and self.failure is None)


class DirectHttp:
    """The short way to the server at `url`, for a session that has agreed on a revision.

    `headers` go with every request, under names in lower case; `limit` is the largest answer in bytes; `patience` is
    the longest time in seconds until an exchange is handed over.
    """

    def __init__(
        self,
        place: HttpTarget,
        headers: Mapping[str, str],
        stamp: AddSessionFields,
        session_id: str | None,
        limit: int,
        patience: float = HANDOVER_SECONDS,
    ) -> None:
        self._target = place
        self._add_session_fields = stamp
        self._limit = limit
        self._handover_seconds = patience
        self._headers = {
            "host": place.authority,
            **headers,
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            **({"mcp-session-id": session_id} if session_id else {}),
        }
        self._idle: list[HttpLine] = []
        self._lock = threading.Lock()
        self._closed = False

    def send(
        self,
        run: RequestRun,
        method: str,
        params: Json,
        traffic: RequestTable | None = None,
        on_item: Callable[[Item], None] | None = None,
    ) -> Json | None:
        """The result of a request; None when the official client has to go on with it: `run.begun` says from where.

        Begins nothing where there is no connection to be had: what is wrong then, the official client will tell.
        With `on_item`, an event stream is read too: what the server says in it beside the result goes there.
        """
        line = self._get_line()
        if line is None:
            return None
        id = make_request_id()
        try:
            post = run.exchange = HttpExchange(
                id, line, self._build_request(id, run, method, params), self._release_line, on_item
            )
            if traffic is not None:
                traffic.register(run, id)
            result = post.read_result(
                min(math.inf if run.seconds is None else run.seconds, self._handover_seconds), self._limit
            )
        except BaseException:
            if traffic is not None:
                traffic.unregister(run)
            line.socket.close()
            raise
        if result is not None:
            run.exchange = None
            if traffic is not None:
                traffic.unregister(run)
            post.close()
        return result

    def _build_request(self, id: str, run: RequestRun, method: str, params: Json) -> tuple[h11.Request, bytes]:
        """What the official session would send: it alone knows which headers and which `_meta` belong to a request."""
        data: Json = {"method": method, "params": {**params, "_meta": dict(params.get("_meta") or {})}}
        options: Any = {}
        self._add_session_fields(data, options)
        meta = data["params"]["_meta"]
        if run.capabilities is not None and CLIENT_CAPABILITIES_META_KEY in meta:
            meta[CLIENT_CAPABILITIES_META_KEY] = dict(run.capabilities)
        if not meta:
            del data["params"]["_meta"]
        if not data["params"]:
            del data["params"]
        body = _encode({"jsonrpc": "2.0", "id": id, **data})
        stamped: Mapping[str, str] = options.get("headers") or {}
        headers = {**self._headers, **{name.lower(): value for name, value in stamped.items()}}
        headers["content-length"] = str(len(body))
        return h11.Request(method="POST", target=self._target.target, headers=list(headers.items())), body

    def _get_line(self) -> HttpLine | None:
        """A connection on which nothing is under way."""
        fresh = time.monotonic() - MAX_IDLE_SECONDS
        while True:
            with self._lock:
                if self._closed:
                    return None
                line = self._idle.pop() if self._idle else None
            if line is None:
                try:
                    return HttpLine(self._target.host, self._target.port)
                except OSError:
                    return None
            if line.idle_since > fresh and not line.is_readable(0):
                return line
            line.socket.close()

    def _release_line(self, line: HttpLine, whole: bool) -> None:
        http = line.http
        if whole and http.our_state is http.their_state is h11.DONE:
            http.start_next_cycle()
            line.idle_since = time.monotonic()
            with self._lock:
                if not self._closed and len(self._idle) < MAX_IDLE_CONNECTIONS:
                    self._idle.append(line)
                    return
        line.socket.close()

    def close(self) -> None:
        """End all connections that nobody uses; none is kept afterwards."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for line in idle:
            line.socket.close()


def _encode(message: Json) -> bytes:
    try:
        return orjson.dumps(message)
    except TypeError:  # what JSON can say and orjson does not: integers beyond 64 bits, keys that are numbers
        return json.dumps(message, ensure_ascii=False).encode()


def get_plain_result(message: Any) -> Json | None:
    """The result in an answer that is complete; None for any other message."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or message.keys() & {"method", "error"}:
        return None
    result = message.get("result")
    if "id" not in message or not isinstance(result, dict) or result.get("resultType", "complete") != "complete":
        return None
    return result
