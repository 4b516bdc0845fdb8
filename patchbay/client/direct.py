"""The short way for a plain call over HTTP: the caller's own thread sends it and takes the answer, if that comes soon.

The official client hands every request from thread to thread and task to task, which costs more than a call to a
server nearby. So a call that is plain is posted from the thread that makes it, on a connection that is kept, as the
official session would have worded it. An answer that is one JSON result, whole within PROMPT seconds, is the answer.
Whatever else comes of it (a stream, an error, a question, a refusal, silence) is handed over: the official client
makes the request once more, and its HTTP transport is given the exchange that has begun instead of sending anything.
So all rules for those stay in one place, and nothing is ever sent twice.

    Direct    the short way to one server: kept connections, and how a request is worded
    Post      one exchange that has begun: a body that either side can go on reading
    Handover  the transport of the official client's requests to that server

Only `http:` URLs go this way, without a sign-in, a proxy or cookies: over anything else what is saved is little beside
what the way costs. Sources: issue 5 part 7 (mount overhead); MCP specification, basic/transports; RFC 9112 section 9.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import select
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.request import getproxies

import h11
import httpx2
import orjson
from mcp import ClientSession
from mcp_types import CLIENT_CAPABILITIES_META_KEY, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from patchbay.client.reach import Http
from patchbay.client.runs import CURRENT, Json, Run
from patchbay.client.streams import Traffic

PLAIN = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})
"""Methods that may go this way: one request, one answer, and nothing of the connection changes by them."""

PROMPT = 0.05
"""Seconds until an exchange is handed over, and in which a new connection has to stand."""

IDLE, MOST_IDLE = 4.0, 16
"""How long a connection is kept for the next call, in seconds (less than servers do: five, often), and how many."""

LARGEST_HEAD = 64 * 1024
PIECE = 64 * 1024
"""Bytes of the largest head of an answer, and of one reading."""

_numbers = itertools.count(1)


class _Line:
    """One kept connection: a socket that never blocks, and what HTTP/1.1 says on it."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), PROMPT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
        self.idle_since = 0.0
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)

    def readable(self, seconds: float) -> bool:
        """Whether there is something to read, or the other end has gone, within so many seconds."""
        return bool(self._poll.poll(max(0.0, seconds) * 1000))


class Post(httpx2.AsyncByteStream):
    """An exchange that has begun. First the thread that began it reads, then, if it is handed over, the loop.

    `id` is the one that the request bears on the wire. `done` is given the line when nobody reads any more, and
    whether the answer was read to its end.
    """

    def __init__(
        self, id: str, line: _Line, request: tuple[h11.Request, bytes], done: Callable[[_Line, bool], None]
    ) -> None:
        self.id = id
        self.head: h11.Response | None = None
        self._line = line
        self._done = done
        self._pieces: list[bytes] = []
        self._size = 0
        self._whole = self._closed = False
        self._problem: Exception | None = None
        http, (head, body) = line.http, request
        self._unsent = b"".join(
            part for event in (head, h11.Data(body), h11.EndOfMessage()) if (part := http.send(event))
        )

    # on the thread that began it

    def answer(self, seconds: float, limit: int) -> Json | None:
        """The result, when it is whole within so many seconds and plain; else None, and this is to be handed over."""
        end = time.monotonic() + min(seconds, PROMPT)
        try:
            self._unsent = self._unsent[self._line.socket.send(self._unsent) :]
            while self._promising(limit) and not self._whole:
                if self._advance():
                    continue
                if not self._line.readable(end - time.monotonic()):
                    return None
                self._line.http.receive_data(self._line.socket.recv(PIECE))
        except BlockingIOError:
            return None
        except (OSError, h11.ProtocolError) as problem:
            self._problem = problem  # told by the loop, in its own words
            return None
        return self._result() if self._promising(limit) else None

    def _promising(self, limit: int) -> bool:
        """Whether this may still become a plain answer."""
        if self._unsent or self._size > limit:
            return False
        if self.head is None:
            return not self._whole
        headers = dict(self.head.headers)
        odd = headers.keys() & {b"content-encoding", b"set-cookie"}
        return (
            self.head.status_code == 200
            and not odd
            and headers.get(b"content-type", b"").startswith(b"application/json")
        )

    def _result(self) -> Json | None:
        try:
            message = jsonrpc_message_adapter.validate_json(b"".join(self._pieces), by_name=False)
        except ValidationError:
            return None
        if not isinstance(message, JSONRPCResponse) or message.result.get("resultType", "complete") != "complete":
            return None
        return message.result

    def _advance(self) -> bool:
        """Take in what has arrived; whether there was anything."""
        event = self._line.http.next_event()
        if event is h11.NEED_DATA:
            return False
        if isinstance(event, h11.Response):
            self.head = event
        elif isinstance(event, h11.Data):
            self._pieces.append(bytes(event.data))
            self._size += len(event.data)
        elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
            self._whole = True
        return True

    # on the loop

    async def response(self) -> httpx2.Response:
        """The answer, once its head is here. Raises httpx2.TransportError."""
        await self._go_on(lambda: self.head is not None)
        if self.head is None:
            raise httpx2.RemoteProtocolError("the server closed the connection without an answer")
        headers = [(name, value) for name, value in self.head.headers.raw_items()]
        return httpx2.Response(
            self.head.status_code, headers=headers, stream=self, extensions={"reason_phrase": bytes(self.head.reason)}
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await self._go_on(lambda: bool(self._pieces))
            if not self._pieces:
                return
            pieces, self._pieces = self._pieces, []
            yield b"".join(pieces)

    async def _go_on(self, enough: Callable[[], bool]) -> None:
        """Read until there is enough or nothing more comes."""
        loop, line = asyncio.get_running_loop(), self._line
        try:
            if self._problem is not None:
                raise self._problem
            if self._unsent:
                unsent, self._unsent = self._unsent, b""
                await loop.sock_sendall(line.socket, unsent)
            while not enough() and not self._whole:
                if not self._advance():
                    line.http.receive_data(await loop.sock_recv(line.socket, PIECE))
        except (OSError, h11.ProtocolError) as problem:
            raise httpx2.ReadError(str(problem) or type(problem).__name__) from problem

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Nobody reads any more: the line is kept when all was read, else closed, which cancels a modern call."""
        if not self._closed:
            self._closed = True
            self._done(self._line, self._whole and self._problem is None)

    async def aclose(self) -> None:
        self.close()


class Direct:
    """The short way to the server at `url`, for a session that has agreed on a revision.

    `headers` go with every request, under names in lower case; `limit` is the largest answer in bytes.
    """

    def __init__(
        self, url: httpx2.URL, headers: Mapping[str, str], session: ClientSession, session_id: str | None, limit: int
    ) -> None:
        self._place = (url.host, url.port or 80)
        self._target = url.raw_path
        self._session = session
        self._limit = limit
        self._headers = {
            "host": url.netloc.decode("ascii"),
            **headers,
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            **({"mcp-session-id": session_id} if session_id else {}),
        }
        self._idle: list[_Line] = []
        self._lock = threading.Lock()
        self._closed = False

    def begin(self, run: Run, method: str, params: Json, traffic: Traffic) -> Json | None:
        """The result of a request; None when the official client has to go on with it: `run.begun` says from where.

        Begins nothing where there is no connection to be had: what is wrong then, the official client will tell.
        """
        line = self._line()
        if line is None:
            return None
        id = f"patchbay-{next(_numbers)}"
        try:
            post = run.begun = Post(id, line, self._request(id, run, method, params), self._give_back)
            traffic.join(run, id)
            result = post.answer(math.inf if run.seconds is None else run.seconds, self._limit)
        except BaseException:
            traffic.forget(run)
            line.socket.close()
            raise
        if result is not None:
            run.begun = None
            traffic.forget(run)
            post.close()
        return result

    def _request(self, id: str, run: Run, method: str, params: Json) -> tuple[h11.Request, bytes]:
        """What the official session would send: it alone knows which headers and which `_meta` belong to a request."""
        data: Json = {"method": method, "params": {**params, "_meta": dict(params.get("_meta") or {})}}
        options: Any = {}
        self._session._stamp(data, options)
        meta = data["params"]["_meta"]
        if run.capabilities is not None and CLIENT_CAPABILITIES_META_KEY in meta:
            meta[CLIENT_CAPABILITIES_META_KEY] = dict(run.capabilities)
        if not meta:
            del data["params"]["_meta"]
        body = _encoded({"jsonrpc": "2.0", "id": id, **data})
        stamped: Mapping[str, str] = options.get("headers") or {}
        headers = {**self._headers, **{name.lower(): value for name, value in stamped.items()}}
        headers["content-length"] = str(len(body))
        return h11.Request(method="POST", target=self._target, headers=list(headers.items())), body

    def _line(self) -> _Line | None:
        """A connection on which nothing is under way."""
        fresh = time.monotonic() - IDLE
        while True:
            with self._lock:
                if self._closed:
                    return None
                line = self._idle.pop() if self._idle else None
            if line is None:
                try:
                    return _Line(*self._place)
                except OSError:
                    return None
            if line.idle_since > fresh and not line.readable(0):
                return line
            line.socket.close()

    def _give_back(self, line: _Line, whole: bool) -> None:
        http = line.http
        if whole and http.our_state is http.their_state is h11.DONE:
            http.start_next_cycle()
            line.idle_since = time.monotonic()
            with self._lock:
                if not self._closed and len(self._idle) < MOST_IDLE:
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


def _encoded(message: Json) -> bytes:
    try:
        return orjson.dumps(message)
    except TypeError:  # what JSON can say and orjson does not: integers beyond 64 bits, keys that are numbers
        return json.dumps(message, ensure_ascii=False).encode()


class Handover(httpx2.AsyncHTTPTransport):
    """Sends requests, but for one that has begun: of that the answer is passed on."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        run = CURRENT.get()
        post = run.begun if run is not None and request.method == "POST" else None
        if run is None or not isinstance(post, Post):
            return await super().handle_async_request(request)
        run.begun = None
        if post.closed:
            return httpx2.Response(202)  # its caller has left: nobody waits for what is said here
        try:
            return await post.response()
        except BaseException:
            post.close()
            raise


def is_possible(reach: Http) -> bool:
    """Whether a server may be spoken to in this way, as far as can be known before it was spoken to."""
    url = httpx2.URL(reach.url)
    return url.scheme == "http" and not url.userinfo and not reach.public and not getproxies()
