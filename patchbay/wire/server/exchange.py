"""One request of a connection and its answer, with the interface that the front expects (`wire/requests/rsgi.py`).

A body that is not read is dropped: its connection then ends after the answer.
Sources: RFC 9110, sections 6, 9.3.2 and 10.1.1; RFC 9112, sections 6, 7 and 9; RFC 6455, section 4.2.2.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections import deque
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

from patchbay.wire.server.results import Result

MAX_ARRIVED_BYTES, MAX_ARRIVED_PIECES = 256 * 1024, 16 * 1024
"""Bytes and pieces of a body that wait to be read; the server receives no more of them meanwhile."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
JOINED_BYTES = 64 * 1024
"""A shorter body is sent in one piece with its head."""

KEY_CHARACTERS = 24
WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

Pairs = list[tuple[str, str]]


class ClientLeft(ConnectionError):
    """The connection ended before the body did, or before all of the answer was sent."""


class Wire(Protocol):
    """The connection of a request, as far as its answer needs it."""

    client: str
    server_name: str

    @property
    def is_stopping(self) -> bool: ...
    def write(self, data: bytes, more: bytes = b"") -> None: ...
    def go_on(self) -> None: ...
    def end_exchange(self, exchange: Exchange, data: bytes = b"", more: bytes = b"") -> None: ...
    def hand_over(self) -> None: ...
    def close_handed_over(self) -> None: ...


class HeadLines:
    """The lines of a head: lower-case names. A value that is not ASCII is left out of the lines, not of the names."""

    __slots__ = ("_lines", "_names")

    def __init__(self, lines: Pairs, others: list[str]) -> None:
        self._lines = lines
        self._names = dict.fromkeys([name for name, _ in lines] + others) if others else dict(lines)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        """Whether there is a header of this lower-case name, also one whose value cannot be read."""
        return name in self._names

    def get(self, key: str, default: Any = None) -> Any:
        for name, value in self._lines:
            if name == key:
                return value
        return default

    def get_all(self, key: str) -> list[str]:
        return [value for name, value in self._lines if name == key]

    def keys(self) -> list[str]:
        return list(self._names)

    def items(self) -> Pairs:
        return self._lines


NO_LINES: list[Any] = []
NO_HEAD = HeadLines(NO_LINES, NO_LINES)


class Exchange:
    """One request and its answer. The answer is sent by one thread at a time."""

    __slots__ = (
        *("_arrived", "_added", "_taken", "_connection", "_waits", "_fault", "_is_begun", "_is_read_whole", "_left"),
        *("authority", "client", "expects", "has_left", "headers", "http_version", "is_answered", "is_complete"),
        *("keeps_alive", "method", "path", "proto", "query_string", "scheme", "server", "target"),
        *("_pieces", "is_streamed", "lines", "others"),
    )

    def __init__(self, connection: Wire) -> None:
        self._connection = connection
        self.client, self.server = connection.client, connection.server_name
        self.scheme = "http"
        self.proto = "http"
        self.target = b""
        self.lines: Pairs = []
        self.others: list[str] = []
        self.expects = self.is_complete = self.is_answered = self.has_left = self.is_streamed = False
        self._is_begun = self._is_read_whole = False
        self._pieces: deque[bytes] | tuple[()] = ()
        self._added = self._taken = 0  # bytes of the body; one thread counts each
        # One at most: threads share the list, and `pop` gives it to one of them.
        self._waits: list[tuple[Result, bool]] | tuple[()] = ()
        self._left: Result | None = None
        self._fault: BaseException | None = None

    # The request arrives; the connection calls these while it reads.

    def take_head(self, method: str, version: str, keeps_alive: bool) -> str:
        """Note what the first line says; return what is wrong with it, "" for nothing."""
        self.method, self.http_version, self.keeps_alive = method, version, keeps_alive
        self.headers = HeadLines(self.lines, self.others)
        target = self.target.decode("latin-1")
        self.authority: str | None = None
        if target[:1] != "/":
            if "://" in target:
                _, _, rest = target.partition("://")
                ends = [at for at in (rest.find("/"), rest.find("?")) if at >= 0]
                at = min(ends) if ends else len(rest)
                self.authority, target = rest[:at], rest[at:]
                if target[:1] != "/":
                    target = f"/{target}"
            elif target != "*":
                self.authority, target = target, ""
        if "#" in target:
            return "the target has a fragment"
        path, _, self.query_string = target.partition("?")
        self.path = unquote_to_bytes(path).decode(errors="replace") if "%" in path else path
        return ""

    def is_handshake(self) -> bool:
        """Whether this is a request for a WebSocket of RFC 6455."""
        headers = self.headers
        return (
            self.method == "GET"
            and self.http_version == "1.1"
            and headers.get("sec-websocket-version") == "13"
            and len(headers.get("sec-websocket-key", "")) == KEY_CHARACTERS
            and headers.get("content-length", "0") == "0"
            and "transfer-encoding" not in headers
        )

    @property
    def is_full(self) -> bool:
        """Whether enough of the body waits to be read. For a reader of the whole body, all of it is enough."""
        is_much = self._added - self._taken >= MAX_ARRIVED_BYTES or len(self._pieces) > MAX_ARRIVED_PIECES
        return is_much and not self._is_read_whole

    def add(self, piece: bytes) -> None:
        """Take a piece of the body."""
        pieces = self._pieces
        if isinstance(pieces, tuple):
            self._pieces = pieces = deque()
        pieces.append(piece)
        self._added += len(piece)

    def end_body(self, fault: BaseException | None = None) -> None:
        """Note the end of the body, or why it has none."""
        if not self.is_complete:
            self._fault = fault  # first: a reader that sees the end must see this too
            self.is_complete = True

    def find_news(self) -> Any:
        """Return what tells the reader of the body about what has arrived, for a moment without locks; or None."""
        waits = self._waits
        if not waits:
            return None
        try:
            _, is_piece = waits[-1]
            if not (self.is_complete or (is_piece and self._pieces)):
                return None
            return self._fill(*waits.pop())
        except IndexError:  # nothing waits, or another thread has just told it
            return None

    def leave(self) -> Any:
        """Note that the client has left; return what tells it, or None."""
        self.has_left = True
        left = self._left
        return None if left is None else left.set(None)

    # The front reads the body.

    def __call__(self) -> Result:
        """Return the whole body, of any length: a caller that limits it has read Content-Length."""
        self._is_read_whole = True
        return self._await(False)

    def __aiter__(self) -> Exchange:
        return self

    def __anext__(self) -> Result:
        return self._await(True)

    def _await(self, is_piece: bool) -> Result:
        result = Result()
        if self.expects and not self.is_complete:
            self.expects = False
            with suppress(OSError):  # the connection tells the reader that the client has left
                self._connection.write(CONTINUE)
        if self.is_complete or (is_piece and self._pieces):
            self._fill(result, is_piece)
            return result
        self._waits = [(result, is_piece)]
        self.find_news()  # more may have arrived since the look
        self._connection.go_on()
        return result

    def _fill(self, result: Result, is_piece: bool) -> Any:
        if not is_piece:
            pieces = self._pieces
            body = b"".join(pieces)
            self._pieces = ()
            self._taken += len(body)
            return result.set(body, self._fault)
        if self._pieces:
            was_full = self.is_full
            piece = self._pieces.popleft()
            self._taken += len(piece)
            if was_full and not self.is_full:
                self._connection.go_on()
            return result.set(piece)
        if self._fault is not None or self._is_begun:
            return result.set(b"", self._fault or StopAsyncIteration())
        self._is_begun = True
        return result.set(b"")

    def client_disconnect(self) -> Result:
        """Return what comes when the client leaves."""
        if self._left is None:
            self._left = Result()
        if self.has_left:
            told = self._left.set(None)
            if told is not None:
                told()
        return self._left

    # The front answers.

    def response_empty(self, status: int, headers: Pairs) -> None:
        if not self.is_answered:
            self.response_bytes(status, headers, b"")

    def response_bytes(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a whole answer. A client that has left gets none."""
        size = None if _has_no_body(status) else len(body)
        if size is not None and _finds(headers, "content-length"):
            if self.method == "HEAD":
                size = None
            else:  # what is announced is what is sent, or the next answer would be read as a part of this one
                headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
        head = self._make_head(status, headers, None, size)
        self.is_answered = True
        if self.method == "HEAD" or _has_no_body(status):
            body = b""
        if len(body) < JOINED_BYTES:
            self._connection.end_exchange(self, head + body)
        else:
            self._connection.end_exchange(self, head, body)

    def response_stream(self, status: int, headers: Pairs) -> AnswerStream:
        """Send the head of an answer; return its body."""
        is_empty = self.method == "HEAD" or _has_no_body(status)
        is_chunked = self.http_version == "1.1" and not is_empty and not _finds(headers, "content-length")
        if not is_chunked and not is_empty and not _finds(headers, "content-length"):
            self.keeps_alive = False
        head = self._make_head(status, headers, "transfer-encoding: chunked\r\n" if is_chunked else None, None)
        self.is_answered = self.is_streamed = True
        # A stream may rest for hours, and needs none of this.
        self.headers, self.lines, self.others, self.target = NO_HEAD, NO_LINES, NO_LINES, b""
        with suppress(OSError):
            self._connection.write(head)
        announced = None if is_chunked or is_empty else _find_length(headers)
        return AnswerStream(self, self._connection, is_chunked, is_empty, announced)

    def _make_head(self, status: int, headers: Pairs, coding: str | None, size: int | None) -> bytes:
        connection = self._connection
        if not self.is_complete or connection.is_stopping:
            self.keeps_alive = False
        lines = [f"{name.lower()}: {value}\r\n" for name, value in headers]
        text = "".join(lines)
        # A line end inside of a value would begin another header.
        if text.count("\n") != len(lines) or text.count("\r") != len(lines) or "\0" in text:
            raise ValueError("a header of the answer has a line end in its value")
        if size is not None:
            text = f"{text}content-length: {size}\r\n"
        if not self.keeps_alive:
            text = f"{text}connection: close\r\n"
        elif self.http_version == "1.0":
            text = f"{text}connection: keep-alive\r\n"
        return f"{_status_line(status)}{text}{coding or ''}date: {_date()}\r\n\r\n".encode("latin-1")

    # A request for a WebSocket.

    def accept(self) -> Result:
        """Answer 101; the connection is the WebSocket's from then on."""
        result = Result()
        key = self.headers.get("sec-websocket-key", "").strip().encode()
        proof = base64.b64encode(hashlib.sha1(key + WEBSOCKET_GUID, usedforsecurity=False).digest()).decode()
        head = f"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: {proof}\r\n"
        self.is_answered = True
        try:
            self._connection.hand_over()
            self._connection.write(f"{_status_line(101)}{head}date: {_date()}\r\n\r\n".encode())
        except OSError as problem:
            result.set(None, problem)
        else:
            result.set(self._connection)
        return result

    def close(self, status: int | None = None) -> None:
        """Refuse the WebSocket with a status; or, once it is accepted, close this end of its connection."""
        if self.is_answered:
            self._connection.close_handed_over()
        else:
            self.keeps_alive = False
            self.response_empty(status or 500, [])


class AnswerStream:
    """The body of an answer. It ends with the last reference to it. `announced` is its Content-Length.

    Of a body of another length, no more than this is sent, and the connection ends with a shorter one.
    """

    __slots__ = ("_connection", "_exchange", "_is_chunked", "_is_empty", "_left")

    def __init__(
        self, exchange: Exchange, connection: Wire, is_chunked: bool, is_empty: bool, announced: int | None = None
    ) -> None:
        self._exchange = exchange
        self._connection = connection
        self._is_chunked = is_chunked
        self._is_empty = is_empty
        self._left = announced

    def send_bytes(self, data: bytes) -> tuple[()]:
        """Send a piece. Raises ClientLeft."""
        if self._is_empty or not data:
            return ()
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        elif self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        self._connection.write(data)
        return ()

    def cut(self) -> None:
        """End the body where it is, so that its reader sees that it is not whole."""
        self._is_chunked = False
        self._exchange.keeps_alive = False

    def __del__(self) -> None:
        if self._left:
            self.cut()
        self._connection.end_exchange(self._exchange, b"0\r\n\r\n" if self._is_chunked else b"")


def _has_no_body(status: int) -> bool:
    return status in (204, 304) or status < 200


def _finds(headers: Pairs, wanted: str) -> bool:
    return any(name.lower() == wanted for name, _ in headers)


def _find_length(headers: Pairs) -> int | None:
    """Return the Content-Length of an answer, None without one."""
    return next((int(value) for name, value in headers if name.lower() == "content-length"), None)


@lru_cache(maxsize=64)
def _status_line(status: int) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n"


_dated: tuple[int, str] = (0, "")


def _date() -> str:
    """Return the time as HTTP writes it; made once for each second."""
    global _dated
    now, (at, text) = int(time.time()), _dated
    if at != now:
        text = formatdate(now, usegmt=True)
        _dated = (now, text)
    return text
