"""Direct calls over HTTP: the caller's own thread sends a plain request and reads a prompt answer.

The official client passes every request between threads and tasks, which takes longer than a call to a server nearby.
So a plain call is posted from the calling thread, on a kept connection, with the same headers and body as the official
session would send. One JSON result that is complete within HANDOVER_SECONDS is the answer. Any other answer (a stream,
an error, a question, a refusal, silence) is handed over: the official client makes the request again, and its HTTP
transport takes the exchange that has begun instead of sending anything. So the rules for such answers are in one place,
and no request is sent twice.

    DirectHttp    direct calls to one server: kept connections, and the headers and body of a request
    HttpExchange  one exchange that has begun: a body that either side can go on reading
    handover.py   the transport of the official client's requests to that server

Only `http:` URLs are called directly, without a sign-in, a proxy or cookies: elsewhere the saving is small.

Sources: MCP specification, basic/transports; RFC 9112 section 9.
"""

from __future__ import annotations

import itertools
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from patchbay.client.connection.event_bodies import EventBody
from patchbay.client.connection.requests import AddSessionFields, Item, Json, RequestRun, encode_request
from patchbay.client.http_messages import Answer, BadMessage, Head, add_body, write_head
from patchbay.jsonrpc import load_json

PLAIN_METHODS = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})
"""Methods that may be called directly: one request, one answer, and no effect on the connection."""

HANDOVER_SECONDS = 0.05
"""Seconds until an exchange is handed over, and for opening a connection."""

MAX_IDLE_SECONDS, MAX_IDLE_CONNECTIONS = 4.0, 16
"""How long an idle connection is kept (shorter than servers do: five seconds, often), and how many."""

MAX_KEPT_HEADS = 128
"""How many heads of requests are kept, for each server."""

ARGUMENT_HEADER_PREFIX = "mcp-param-"
"""The beginning of the names of headers that carry arguments of a call."""

READ_BYTES = 64 * 1024
"""Bytes of the largest reading."""

_numbers = itertools.count(1)


class HttpTarget(NamedTuple):
    """The address to connect to, the header Host, and the request target."""

    host: str
    port: int
    authority: str
    target: bytes


class RequestTable(Protocol):
    """Knows the open requests (`message_streams.MessageRouter`)."""

    def register(self, run: RequestRun, id: str) -> None: ...
    def unregister(self, run: RequestRun) -> None: ...


def make_request_id() -> str:
    """Make the id of a new request."""
    return f"patchbay-{next(_numbers)}"


class HttpLine:
    """One kept connection: a non-blocking socket."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), HANDOVER_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.idle_since = 0.0
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)

    def is_readable(self, seconds: float) -> bool:
        """Whether there is something to read, or the server has closed the connection, within so many seconds."""
        return bool(self._poll.poll(max(0.0, seconds) * 1000))


class HttpExchange:
    """An exchange that has begun. The thread that began it reads first; after a handover the event loop does.

    `id` is the request's id in the message. `done` receives the connection when reading has ended, and whether
    it may carry another request. With `on_item`, an answer may be an event stream too: its progress and logs go there.
    """

    def __init__(
        self,
        id: str,
        line: HttpLine,
        request: bytes,
        done: Callable[[HttpLine, bool], None],
        on_item: Callable[[Item], None] | None = None,
    ) -> None:
        self.id = id
        self.line = line
        self.unsent = request
        self.pieces: list[bytes] = []
        self.closed = False
        self.failure: Exception | None = None
        self._answer = Answer()
        self._on_done = done
        self._size = 0
        self._is_json = self._is_stream = False
        self._events = EventBody(id, on_item) if on_item is not None else None

    @property
    def head(self) -> Head | None:
        """The head of the answer; None until it has been read, and when there is no answer."""
        return self._answer.head

    @property
    def complete(self) -> bool:
        """Whether nothing of the answer is left to read."""
        return self._answer.complete

    def read_result(self, seconds: float, limit: int) -> Json | None:
        """Read the result; None when it is not complete in time or not plain, so that the exchange has to be handed
        over.
        """
        end, line, answer = time.monotonic() + seconds, self.line, self._answer
        try:
            while self.unsent:
                self.unsent = self.unsent[line.socket.send(self.unsent) :]
            while not answer.complete and self._may_be_plain(limit):
                if not line.is_readable(end - time.monotonic()):
                    return None
                self.receive(line.socket.recv(READ_BYTES))
                if self._events is not None and self._events.result is not None:
                    return self._finish_stream(self._events.result)
        except BlockingIOError:
            return None
        except (OSError, BadMessage) as problem:
            self.failure = problem  # the event loop reports it
            return None
        return self._parse_result() if self._may_be_plain(limit) else None

    def _finish_stream(self, result: Json) -> Json:
        """Read the end of an event stream, which follows the result shortly."""
        end = time.monotonic() + HANDOVER_SECONDS
        while not self.complete and self.line.is_readable(end - time.monotonic()):
            self.receive(self.line.socket.recv(READ_BYTES))
        return result

    def _may_be_plain(self, limit: int) -> bool:
        """Whether this may still become a plain answer."""
        if self.unsent or self._size > limit:
            return False
        if self.head is None:
            return not self.complete
        if self._is_stream:
            return self._events is not None and self._events.is_plain
        return self._is_json

    def _parse_result(self) -> Json | None:
        try:
            return get_plain_result(load_json(b"".join(self.pieces)), self.id)
        except ValueError:
            return None

    def receive(self, data: bytes) -> None:
        """Read the next bytes of the answer; none mean that the connection has ended. Raises BadMessage."""
        answer, is_new = self._answer, self._answer.head is None
        answer.receive(data)
        if is_new and answer.head is not None:
            self._note_head(answer.head)
        if answer.pieces:
            self._size += sum(map(len, answer.pieces))
            self.pieces += answer.pieces
            answer.pieces.clear()
            if self._events is not None and self._events.is_plain:
                self.pieces = self._events.consume(self.pieces)

    def _note_head(self, head: Head) -> None:
        kind = head.headers.get(b"content-type", b"")
        is_stream = kind.startswith(b"text/event-stream")
        if not is_stream:
            self._events = None
        if head.status_code == 200 and not head.headers.keys() & {b"content-encoding", b"set-cookie"}:
            self._is_stream, self._is_json = is_stream, kind.startswith(b"application/json")

    def close(self) -> None:
        """End reading: keep the connection when the answer is complete, else close it, which cancels a modern call."""
        if not self.closed:
            self.closed = True
            self._on_done(self.line, self.complete and self._answer.is_reusable and self.failure is None)


class DirectHttp:
    """Direct calls to the server at `url`, for a session that has agreed on a revision.

    `headers` are sent with every request, under names in lower case; `limit` is the largest answer in bytes; `patience`
    is the longest time in seconds until an exchange is handed over.
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
        self._heads: dict[tuple[tuple[str, str], ...], bytes] = {}
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
        """Send a request and return its result; None when the official client has to continue with `run.exchange`.

        Sends nothing without a connection; the official client then reports the failure. With `on_item`, an event
        stream is read too: its progress and logs go there.
        """
        line = self._get_line()
        if line is None:
            return None
        id = make_request_id()
        try:
            exchange = run.exchange = HttpExchange(
                id, line, self._build_request(id, run, method, params), self._release_line, on_item
            )
            if traffic is not None:
                traffic.register(run, id)
            result = exchange.read_result(
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
            exchange.close()
        return result

    def _build_request(self, id: str, run: RequestRun, method: str, params: Json) -> bytes:
        """Build the request that the official session would send: its stamp adds the headers and `_meta`."""
        body, stamped = encode_request(id, run, method, params, self._add_session_fields)
        return add_body(self._get_head(tuple(stamped.items())), body)

    def _get_head(self, stamped: tuple[tuple[str, str], ...]) -> bytes:
        """Get the head of a request without its length. A head is kept, but not one with arguments of a call."""
        head = self._heads.get(stamped)
        if head is None:
            added = {name.lower(): value for name, value in stamped}
            head = write_head("POST", self._target.target, {**self._headers, **added}.items())
            if not any(name.startswith(ARGUMENT_HEADER_PREFIX) for name in added):
                if len(self._heads) >= MAX_KEPT_HEADS:
                    self._heads.clear()
                self._heads[stamped] = head
        return head

    def _get_line(self) -> HttpLine | None:
        """Get an idle connection, or open one."""
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

    def _release_line(self, line: HttpLine, is_reusable: bool) -> None:
        if is_reusable:
            line.idle_since = time.monotonic()
            with self._lock:
                if not self._closed and len(self._idle) < MAX_IDLE_CONNECTIONS:
                    self._idle.append(line)
                    return
        line.socket.close()

    def close(self) -> None:
        """Close all idle connections, and keep no further connection."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for line in idle:
            line.socket.close()


def get_plain_result(message: Any, id: str) -> Json | None:
    """Get the result of the complete answer to the request `id`; None for any other message."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or message.keys() & {"method", "error"}:
        return None
    result = message.get("result")
    if message.get("id") != id or not isinstance(result, dict) or result.get("resultType", "complete") != "complete":
        return None
    return result
