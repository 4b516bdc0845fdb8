"""HTTP/1.1 messages as bytes, for a client: write the head of a request, read one answer. No sockets.

llhttp, the parser of Node.js, parses the head and the chunks of an answer in its strict mode. This module adds what a
client has to decide: where the body ends, the largest size of what is not the body, and whether the connection may
carry another request. An answer that two programs could read differently is refused.

Sources: RFC 9110 section 15.2; RFC 9112 sections 2.2, 3, 4, 5, 6, 7, 9.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_HEAD_BYTES = 64 * 1024
"""Bytes of the largest head of an answer, and of the largest trailer or chunk extension."""

_HEAD_END = re.compile(rb"\n\r?\n")
"""The end of a head, also with bare line feeds: the parser refuses those at once, instead of waiting for more."""
_LAST_CHUNK = b"0\r\n\r\n"
_FRAMING = (b"content-length", b"transfer-encoding")
_VERSIONS = (b"HTTP/1.1 ", b"HTTP/1.0 ")
_CONTROLS = bytes(byte for byte in (*range(32), 127) if byte not in b"\t\r\n")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"([\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?)?")
_TARGET = re.compile(rb"[\x21-\x7e]+")


class BadMessage(Exception):
    """A message that is not HTTP/1.1, is above a limit, or ends early."""


class Head(NamedTuple):
    """The head of an answer. `raw` are the headers as they were sent; `headers` has their names in lower case."""

    status_code: int
    reason: bytes
    headers: dict[bytes, bytes]
    raw: list[tuple[bytes, bytes]]


def write_head(method: str, target: bytes, headers: Iterable[tuple[str, str]]) -> bytes:
    """Write the head of a request, except for its length (`add_body`). Names are in lower case; headers that tell where
    the body ends are left out. Raises BadMessage for a name or a value that would change the lines.
    """
    lines = [b"%s %s HTTP/1.1\r\n" % (method.encode("ascii"), target)]
    if not _TOKEN.fullmatch(method) or not _TARGET.fullmatch(target):
        raise BadMessage(f"{method} {target!r} cannot be requested")
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise BadMessage(f"the header {name!r} cannot be sent")
        if name.encode("ascii") not in _FRAMING:
            lines.append(f"{name}: {value}\r\n".encode("ascii"))
    return b"".join(lines)


def add_body(head: bytes, body: bytes) -> bytes:
    """Return the request with this head and this body."""
    return b"%scontent-length: %d\r\n\r\n%s" % (head, len(body), body)


class Answer:
    """One answer, from the bytes of a connection. Each answer has a parser of its own, so that nothing of one answer
    becomes part of the next.

    `pieces` are the parts of the body that have been read; the caller may take them out. When the answer is complete,
    `is_reusable` tells whether the connection may carry another request.
    """

    def __init__(self) -> None:
        self.head: Head | None = None
        self.pieces: list[bytes] = []
        self.complete = self.is_reusable = False
        self._received = b""
        self._unread: int | None = None  # of a body whose length is known
        self._has_chunks = False
        self._tail = b""
        self._overhead = 0
        self._begin_head()

    def receive(self, data: bytes) -> None:
        """Read the next bytes of the connection; none mean that it has ended. Raises BadMessage."""
        if not data:
            self._end()
            return
        if self.head is None:
            data = self._receive_head(data)
        if data:
            if self._has_chunks and not self.complete:
                self._receive_chunks(data)
            else:
                self._receive_body(data)

    def _begin_head(self) -> None:
        self._reason = b""
        self._raw: list[tuple[bytes, bytes]] = []
        self._status = 0
        self._keeps_alive = self._has_ended = self._advanced = False
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    def _receive_head(self, data: bytes) -> bytes:
        """Read heads until that of the final answer, and return the bytes after it."""
        searched = 0
        if self._received:
            searched = max(0, len(self._received) - 2)
            data = self._received + data
        while self.head is None:
            end = _HEAD_END.search(data, searched)
            size = end.end() if end is not None else len(data)
            if size > MAX_HEAD_BYTES:
                raise BadMessage(f"the head of the answer is larger than {MAX_HEAD_BYTES} bytes")
            if end is None:
                self._received = data
                return b""
            self._parse_head(data[:size])
            searched, data = 0, data[size:]
        self._received = b""
        return data

    def _parse_head(self, data: bytes) -> None:
        """Parse one head; one with a status of 1xx is not kept, because the final answer follows it."""
        if not data.startswith(_VERSIONS) or len(data.translate(None, _CONTROLS)) != len(data):
            raise BadMessage("the answer is not HTTP/1.1")
        self._feed(data)
        status = self._status
        if status < 100:
            raise BadMessage(f"the answer has the status {status}")
        headers = {name.lower(): value for name, value in self._raw}
        if len(headers) != len(self._raw):
            names = [name.lower() for name, _ in self._raw]
            if max(map(names.count, _FRAMING)) > 1:
                raise BadMessage("the answer has more than one Content-Length or Transfer-Encoding")
        is_current = data.startswith(_VERSIONS[0])
        coding = headers.get(b"transfer-encoding")
        # A coding with a tab behind it is unknown to the parser, which would read the body without chunks.
        if coding is not None and (coding.rstrip(b" ").lower() != b"chunked" or not is_current):
            raise BadMessage("the answer has a Transfer-Encoding that cannot be read")
        if status < 200:
            self._begin_head()
            return
        self._choose_framing(status, headers, is_current)
        raw = [(name, value.rstrip(b" \t")) for name, value in self._raw]
        self.head = Head(status, self._reason, {name.lower(): value for name, value in raw}, raw)
        self._raw = []  # a trailer goes there
        if not self._has_chunks:
            self._parser = None  # the parser refers to this object

    def _choose_framing(self, status: int, headers: dict[bytes, bytes], is_current: bool) -> None:
        """Find out where the body ends (RFC 9112 section 6.3)."""
        length = headers.get(b"content-length")
        if status in (204, 304):
            self._unread = 0
        elif length is not None:
            self._unread = int(length)  # the parser accepts only digits, and no chunks beside a length
        self._has_chunks = self._unread is None and b"transfer-encoding" in headers
        self.complete = self._unread == 0
        self.is_reusable = is_current and self._keeps_alive and (self._has_chunks or self._unread is not None)

    def _receive_body(self, data: bytes) -> None:
        if self.complete:
            self.is_reusable = False
            return
        if self._unread is not None:
            if len(data) > self._unread:
                data = data[: self._unread]
                self.is_reusable = False
            self._unread -= len(data)
            self.complete = self._unread == 0
        self.pieces.append(data)

    def _receive_chunks(self, data: bytes) -> None:
        """Read chunks. What follows the last one is not read: the connection is not used again then."""
        known = len(self.pieces)
        self._advanced = False
        self._tail = (self._tail + data[-len(_LAST_CHUNK) :])[-len(_LAST_CHUNK) :]
        try:
            self._feed(data)
        except BadMessage:
            if not self._has_ended:
                raise
            self.is_reusable = False
        if self._has_ended:
            self.complete, self._parser = True, None
            self.is_reusable = self.is_reusable and self._tail == _LAST_CHUNK
            return
        # An upper bound of the bytes after the last event of the parser, which are those of one size line or trailer.
        unused = len(data) - sum(map(len, self.pieces[known:]))
        self._overhead = unused if self._advanced else self._overhead + unused
        if self._overhead > MAX_HEAD_BYTES:
            raise BadMessage(f"the answer has an extension or a trailer larger than {MAX_HEAD_BYTES} bytes")

    def _feed(self, data: bytes) -> None:
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as problem:
            raise BadMessage(f"the answer is not HTTP/1.1: {problem}") from problem

    def _end(self) -> None:
        if self.complete:
            return
        self.is_reusable = False
        is_ended_by_connection = self.head is not None and not self._has_chunks and self._unread is None
        if not is_ended_by_connection and (self.head is not None or self._received):
            raise BadMessage("the server closed the connection before the end of its answer")
        self.complete = True

    # The callbacks of the parser.

    def on_status(self, reason: bytes) -> None:
        self._reason = reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self._raw.append((name, value))

    def on_headers_complete(self) -> None:
        if self._has_ended:
            raise BadMessage("another answer follows")
        assert self._parser is not None
        self._status, self._keeps_alive = self._parser.get_status_code(), self._parser.should_keep_alive()

    def on_chunk_header(self) -> None:
        self._advanced = True

    def on_body(self, piece: bytes) -> None:
        self._advanced = True
        self.pieces.append(piece)

    def on_message_complete(self) -> None:
        if self.head is not None and any(name.lower() in _FRAMING for name, _ in self._raw):
            raise BadMessage("the trailer says where the body ends")
        self._has_ended = True
