"""Unusual and malformed HTTP answers on the direct path: each is taken as written in one table, or refused.

Every answer goes over a real connection to `DirectHttp`, and its rest to the transport of the official client, as in a
mounted call. An answer that is refused never becomes a result, and no second answer hides behind the first one.
Issue 38, item 3. Sources: RFC 9110 sections 6.4.1 and 15.2; RFC 9112 sections 2.2, 4, 5, 6, 7, 9.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import httpx2
import pytest

from patchbay.client.connection import direct_http
from patchbay.client.connection.direct_http import READ_BYTES, DirectHttp, HttpExchange, HttpTarget
from patchbay.client.connection.event_loop import get_shared_loop
from patchbay.client.connection.handover import UnreadAnswer
from patchbay.client.connection.requests import RequestRun
from patchbay.client.http_messages import Answer, BadMessage

ID = "patchbay-38"
BODY = b'{"jsonrpc":"2.0","id":"patchbay-38","result":{"from":"right"}}'
WRONG = b'{"jsonrpc":"2.0","id":"patchbay-38","result":{"from":"wrong"}}'
JSON = b"Content-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)
OK = b"HTTP/1.1 200 OK\r\n"
PLAIN = OK + JSON + LENGTH + b"\r\n" + BODY
SMUGGLED = OK + JSON + LENGTH + b"\r\n" + WRONG
LIMIT = 100_000
"""Bytes of the largest answer in these tests."""

RIGHT = "right"
REFUSED = "refused"


class Case(NamedTuple):
    """An answer, what it has to become (a result, refused, or a status and a body for the official client), whether
    the connection may be used again, and whether the server ends the connection after the answer.
    """

    answer: bytes
    expected: str | tuple[int, bytes]
    is_kept: bool = False
    ends: bool = False


def head(*lines: bytes, status: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"".join(line + b"\r\n" for line in (status, *lines, b""))


def length(text: bytes) -> bytes:
    return OK + JSON + b"Content-Length: " + text + b"\r\n\r\n"


def chunked(body: bytes) -> bytes:
    return OK + JSON + CHUNKED + b"\r\n" + body


SIZE = b"%x" % len(BODY)

CASES: dict[str, Case] = {
    # What servers send.
    "plain": Case(PLAIN, RIGHT, is_kept=True),
    "no reason phrase": Case(b"HTTP/1.1 200\r\n" + JSON + LENGTH + b"\r\n" + BODY, RIGHT, is_kept=True),
    "empty reason phrase": Case(b"HTTP/1.1 200 \r\n" + JSON + LENGTH + b"\r\n" + BODY, RIGHT, is_kept=True),
    "reason phrase beyond ASCII": Case(
        "HTTP/1.1 200 Schön\r\n".encode() + JSON + LENGTH + b"\r\n" + BODY, RIGHT, is_kept=True
    ),
    "spaces around a value": Case(
        OK + JSON + b"Content-Length: \t %d \t\r\n\r\n" % len(BODY) + BODY, RIGHT, is_kept=True
    ),
    "no space before a value": Case(OK + JSON + b"Content-Length:%d\r\n\r\n" % len(BODY) + BODY, RIGHT, is_kept=True),
    "names in capitals": Case(
        OK + (JSON + LENGTH).upper().replace(b"APPLICATION/JSON", b"application/json") + b"\r\n" + BODY,
        RIGHT,
        is_kept=True,
    ),
    "an empty value": Case(OK + JSON + b"X-Empty:\r\n" + LENGTH + b"\r\n" + BODY, RIGHT, is_kept=True),
    "a value beyond ASCII": Case(
        OK + JSON + "X-Town: Köln\r\n".encode() + LENGTH + b"\r\n" + BODY, RIGHT, is_kept=True
    ),
    "Connection: close": Case(OK + JSON + LENGTH + b"Connection: close\r\n\r\n" + BODY, RIGHT),
    "Connection: Close among others": Case(OK + JSON + LENGTH + b"Connection: x, Close\r\n\r\n" + BODY, RIGHT),
    "Connection: keep-alive": Case(OK + JSON + LENGTH + b"Connection: keep-alive\r\n\r\n" + BODY, RIGHT, is_kept=True),
    "the end of the connection ends the body": Case(OK + JSON + b"\r\n" + BODY, RIGHT, ends=True),
    "chunked": Case(chunked(CHUNKS + b"\r\n"), RIGHT, is_kept=True),
    "chunked, size in capitals and with zeros": Case(
        chunked(b"000" + SIZE.upper() + b"\r\n" + BODY + b"\r\n000\r\n\r\n"), RIGHT, is_kept=True
    ),
    "chunked, in two chunks": Case(
        chunked(b"5\r\n" + BODY[:5] + b"\r\n%x\r\n" % (len(BODY) - 5) + BODY[5:] + b"\r\n0\r\n\r\n"),
        RIGHT,
        is_kept=True,
    ),
    "chunked, with a capital and spaces around it": Case(
        OK + JSON + b"Transfer-Encoding: \tChunked  \r\n\r\n" + CHUNKS + b"\r\n", RIGHT, is_kept=True
    ),
    "chunk extension": Case(chunked(SIZE + b";name=value\r\n" + BODY + b"\r\n0;last\r\n\r\n"), RIGHT),
    "chunk extension with a quoted value": Case(
        chunked(SIZE + b';name="a;b"\r\n' + BODY + b"\r\n0\r\n\r\n"), RIGHT, is_kept=True
    ),
    "trailer": Case(chunked(CHUNKS + b"X-Sum: 5\r\n\r\n"), RIGHT),
    "trailer that names a length": Case(chunked(CHUNKS + b"Content-Length: 1\r\n\r\n"), REFUSED),
    "trailer that names a coding": Case(chunked(CHUNKS + b"Transfer-Encoding: x\r\n\r\n"), REFUSED),
    "trailer that names a type": Case(chunked(CHUNKS + b"Content-Type: text/event-stream\r\n\r\n"), RIGHT),
    "100 first": Case(b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN, RIGHT, is_kept=True),
    "103 with headers first": Case(
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nContent-Type: text/plain\r\n\r\n" + PLAIN, RIGHT, is_kept=True
    ),
    "two 1xx first": Case(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + PLAIN, RIGHT, is_kept=True),
    "1xx with a length first": Case(b"HTTP/1.1 102 Processing\r\n" + LENGTH + b"\r\n" + PLAIN, RIGHT, is_kept=True),
    "1xx with an unknown coding first": Case(
        b"HTTP/1.1 102 Processing\r\nTransfer-Encoding: x\r\n\r\n" + PLAIN, REFUSED
    ),
    "HTTP/1.0 with a length": Case(b"HTTP/1.0 200 OK\r\n" + JSON + LENGTH + b"\r\n" + BODY, RIGHT),
    "HTTP/1.0 with keep-alive": Case(
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + JSON + LENGTH + b"\r\n" + BODY, RIGHT
    ),
    "HTTP/1.0 ended by the connection": Case(b"HTTP/1.0 200 OK\r\n" + JSON + b"\r\n" + BODY, RIGHT, ends=True),
    "two equal lengths": Case(OK + JSON + LENGTH + LENGTH + b"\r\n" + BODY, REFUSED),
    "a list of equal lengths": Case(length(b"%d, %d" % (len(BODY), len(BODY))) + BODY, REFUSED),
    "202 without a body": Case(head(b"Content-Length: 0", status=b"HTTP/1.1 202 Accepted"), (202, b""), is_kept=True),
    "204": Case(head(status=b"HTTP/1.1 204 No Content"), (204, b""), is_kept=True),
    "204 with a length and a body": Case(
        head(JSON.strip(), LENGTH.strip(), status=b"HTTP/1.1 204 No Content") + BODY, (204, b"")
    ),
    "304 with a length": Case(head(LENGTH.strip(), status=b"HTTP/1.1 304 Not Modified"), (304, b""), is_kept=True),
    "304 with a length and a body": Case(head(LENGTH.strip(), status=b"HTTP/1.1 304 Not Modified") + BODY, (304, b"")),
    "204 with chunks": Case(head(CHUNKED.strip(), status=b"HTTP/1.1 204 No Content") + CHUNKS + b"\r\n", (204, b"")),
    "500": Case(head(b"Content-Length: 2", status=b"HTTP/1.1 500 Broken") + b"no", (500, b"no"), is_kept=True),
    "a status without a name": Case(
        head(b"Content-Length: 2", status=b"HTTP/1.1 799 ?") + b"no", (799, b"no"), is_kept=True
    ),
    "another type": Case(head(b"Content-Type: text/plain", b"Content-Length: 2") + b"no", (200, b"no"), is_kept=True),
    "a compressed body": Case(
        head(JSON.strip(), b"Content-Encoding: identity", LENGTH.strip()) + BODY, (200, BODY), is_kept=True
    ),
    # The status line.
    "no HTTP": Case(b"hello\r\n\r\n", REFUSED),
    "only a body": Case(BODY, REFUSED, ends=True),
    "nothing": Case(b"", REFUSED, ends=True),
    "a blank line first": Case(b"\r\n" + PLAIN, REFUSED),
    "HTTP/0.9": Case(PLAIN.replace(b"HTTP/1.1", b"HTTP/0.9"), REFUSED),
    "HTTP/2": Case(PLAIN.replace(b"HTTP/1.1", b"HTTP/2.0"), REFUSED),
    "HTTP/1.2": Case(PLAIN.replace(b"HTTP/1.1", b"HTTP/1.2"), REFUSED),
    "HTTP/1.": Case(PLAIN.replace(b"HTTP/1.1", b"HTTP/1."), REFUSED),
    "HTTP/11.1": Case(PLAIN.replace(b"HTTP/1.1", b"HTTP/11.1"), REFUSED),
    "http in small letters": Case(PLAIN.replace(b"HTTP", b"http"), REFUSED),
    "another protocol": Case(PLAIN.replace(b"HTTP/1.1", b"RTSP/1.0"), REFUSED),
    "ICE": Case(PLAIN.replace(b"HTTP/1.1", b"ICE/1.1"), REFUSED),
    "a request": Case(b"POST /mcp HTTP/1.1\r\n" + JSON + LENGTH + b"\r\n" + BODY, REFUSED),
    "status of two digits": Case(PLAIN.replace(b"200", b"20"), REFUSED),
    "status of four digits": Case(PLAIN.replace(b"200", b"2000"), REFUSED),
    "status below 100": Case(PLAIN.replace(b"200", b"099"), REFUSED),
    "a word as the status": Case(PLAIN.replace(b"200", b"two"), REFUSED),
    "a negative status": Case(PLAIN.replace(b"200", b"-20"), REFUSED),
    "two spaces before the status": Case(PLAIN.replace(b" 200", b"  200"), REFUSED),
    "a tab before the status": Case(PLAIN.replace(b" 200", b"\t200"), REFUSED),
    "NUL in the reason phrase": Case(PLAIN.replace(b"OK", b"O\0K"), REFUSED),
    "CR in the reason phrase": Case(PLAIN.replace(b"OK", b"O\rK"), REFUSED),
    # The lines of a head.
    "bare LF in the whole head": Case((OK + JSON + LENGTH + b"\r\n").replace(b"\r\n", b"\n") + BODY, REFUSED),
    "bare LF after the status line": Case(PLAIN.replace(b"OK\r\n", b"OK\n"), REFUSED),
    "bare LF after a header": Case(PLAIN.replace(b"json\r\n", b"json\n"), REFUSED),
    "bare LF as the blank line": Case(OK + JSON + LENGTH + b"\n" + BODY, REFUSED),
    "bare CR after a header": Case(PLAIN.replace(b"json\r\n", b"json\r"), REFUSED),
    "bare CR in a value": Case(OK + JSON + b"X-A: a\rX-B: b\r\n" + LENGTH + b"\r\n" + BODY, REFUSED),
    "CR CR LF": Case(PLAIN.replace(b"json\r\n", b"json\r\r\n"), REFUSED),
    "folded value": Case(OK + JSON + b"X-Long: a\r\n b\r\n" + LENGTH + b"\r\n" + BODY, REFUSED),
    "folded value that looks like a length": Case(
        OK + JSON + LENGTH + b"X-Long: a\r\n Content-Length: 5\r\n\r\n" + BODY, REFUSED
    ),
    "folded length": Case(OK + JSON + b"Content-Length:\r\n %d\r\n\r\n" % len(BODY) + BODY, REFUSED),
    "a fold before the first header": Case(OK + b" X: y\r\n" + JSON + LENGTH + b"\r\n" + BODY, REFUSED),
    "a line without a colon": Case(OK + JSON + b"no colon\r\n" + LENGTH + b"\r\n" + BODY, REFUSED),
    "an empty name": Case(OK + JSON + b": value\r\n" + LENGTH + b"\r\n" + BODY, REFUSED),
    "a space before the colon": Case(OK + JSON + b"Content-Length : %d\r\n\r\n" % len(BODY) + BODY, REFUSED),
    "a space in a name": Case(OK + JSON + b"X Y: z\r\n" + LENGTH + b"\r\n" + BODY, REFUSED),
    "a name beyond ASCII": Case(OK + JSON + "Größe: z\r\n".encode() + LENGTH + b"\r\n" + BODY, REFUSED),
    "NUL in a name": Case(OK + JSON + b"X\0Y: z\r\n" + LENGTH + b"\r\n" + BODY, REFUSED),
    "NUL in a value": Case(OK + JSON + b"X-Y: a\0b\r\n" + LENGTH + b"\r\n" + BODY, REFUSED),
    "a control character in a value": Case(OK + JSON + b"X-Y: a\x01b\r\n" + LENGTH + b"\r\n" + BODY, REFUSED),
    "DEL in a value": Case(OK + JSON + b"X-Y: a\x7fb\r\n" + LENGTH + b"\r\n" + BODY, REFUSED),
    # The length.
    "two different lengths": Case(OK + JSON + LENGTH + b"Content-Length: 5\r\n\r\n" + BODY, REFUSED),
    "a list of different lengths": Case(length(b"%d, 5" % len(BODY)) + BODY, REFUSED),
    "an empty length": Case(length(b"") + BODY, REFUSED),
    "a negative length": Case(length(b"-5") + BODY, REFUSED),
    "a length with a plus": Case(length(b"+%d" % len(BODY)) + BODY, REFUSED),
    "a length in hexadecimal": Case(length(b"0x" + SIZE) + BODY, REFUSED),
    "a length with a fraction": Case(length(b"%d.0" % len(BODY)) + BODY, REFUSED),
    "a length with an underscore": Case(length(b"6_3") + BODY, REFUSED),
    "a length with a space inside": Case(length(b"6 3") + BODY, REFUSED),
    "a length in other digits": Case(length("٦٣".encode()) + BODY, REFUSED),
    "a length with zeros": Case(length(b"000%d" % len(BODY)) + BODY, RIGHT, is_kept=True),
    "a length of 2 ** 64": Case(length(b"%d" % 2**64) + BODY, REFUSED, ends=True),
    "a length of 2 ** 64 and the body's": Case(length(b"%d" % (2**64 + len(BODY))) + BODY, REFUSED, ends=True),
    "a length of 30 digits": Case(length(b"9" * 30) + BODY, REFUSED, ends=True),
    "a huge length, then the end": Case(length(b"%d" % 2**62) + BODY, REFUSED, ends=True),
    "a body that ends early": Case(PLAIN[:-1], REFUSED, ends=True),
    "a head that ends early": Case(PLAIN[:40], REFUSED, ends=True),
    "a body above the limit": Case(
        length(b"%d" % (LIMIT + 1)) + b" " * (LIMIT + 1), (200, b" " * (LIMIT + 1)), is_kept=True
    ),
    # Both framings, and others.
    "length and chunked": Case(OK + JSON + LENGTH + CHUNKED + b"\r\n" + CHUNKS + b"\r\n", REFUSED),
    "chunked and length": Case(OK + JSON + CHUNKED + LENGTH + b"\r\n" + CHUNKS + b"\r\n", REFUSED),
    "chunked and a wrong length": Case(OK + JSON + CHUNKED + b"Content-Length: 3\r\n\r\n" + CHUNKS + b"\r\n", REFUSED),
    "chunked in HTTP/1.0": Case(b"HTTP/1.0 200 OK\r\n" + JSON + CHUNKED + b"\r\n" + CHUNKS + b"\r\n", REFUSED),
    "an unknown coding": Case(OK + JSON + b"Transfer-Encoding: x\r\n\r\n" + BODY, REFUSED, ends=True),
    "identity": Case(OK + JSON + b"Transfer-Encoding: identity\r\n\r\n" + BODY, REFUSED, ends=True),
    "gzip, chunked": Case(OK + JSON + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS + b"\r\n", REFUSED),
    "chunked, identity": Case(
        OK + JSON + b"Transfer-Encoding: chunked, identity\r\n\r\n" + CHUNKS + b"\r\n", REFUSED, ends=True
    ),
    "chunked and a tab": Case(OK + JSON + b"Transfer-Encoding: chunked\t\r\n\r\n" + CHUNKS + b"\r\n", REFUSED),
    "chunked twice": Case(OK + JSON + CHUNKED + CHUNKED + b"\r\n" + CHUNKS + b"\r\n", REFUSED),
    "an unknown coding and a length": Case(OK + JSON + LENGTH + b"Transfer-Encoding: x\r\n\r\n" + BODY, REFUSED),
    "an empty coding and a length": Case(OK + JSON + LENGTH + b"Transfer-Encoding:\r\n\r\n" + BODY, REFUSED),
    "xchunked": Case(OK + JSON + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKS + b"\r\n", REFUSED, ends=True),
    "chunked with a parameter": Case(
        OK + JSON + b"Transfer-Encoding: chunked;q=1\r\n\r\n" + CHUNKS + b"\r\n", REFUSED, ends=True
    ),
    # Chunks.
    "a chunk size that is a word": Case(chunked(b"xyz\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED),
    "an empty chunk size": Case(chunked(b"\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED),
    "a negative chunk size": Case(chunked(b"-1\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED),
    "a chunk size with 0x": Case(chunked(b"0x" + SIZE + b"\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED),
    "a chunk size with a plus": Case(chunked(b"+" + SIZE + b"\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED),
    "a space before a chunk size": Case(chunked(b" " + SIZE + b"\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED),
    "a space after a chunk size": Case(chunked(SIZE + b" \r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED),
    "a chunk size of 2 ** 64": Case(chunked(b"1" + b"0" * 16 + b"\r\n" + BODY), REFUSED, ends=True),
    "a chunk size of 2 ** 64 and the body's": Case(
        chunked(b"1" + b"0" * 14 + SIZE + b"\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED, ends=True
    ),
    "a chunk size of 30 digits": Case(chunked(b"f" * 30 + b"\r\n" + BODY), REFUSED, ends=True),
    "a chunk size that is too small": Case(chunked(b"3\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED),
    "a chunk size that is too large": Case(chunked(b"ff\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED, ends=True),
    "bare LF after a chunk size": Case(chunked(SIZE + b"\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED),
    "bare CR after a chunk size": Case(chunked(SIZE + b"\r" + BODY + b"\r\n0\r\n\r\n"), REFUSED),
    "bare LF after a chunk": Case(chunked(SIZE + b"\r\n" + BODY + b"\n0\r\n\r\n"), REFUSED),
    "bare LF in a chunk extension": Case(chunked(SIZE + b";a\nb\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED),
    "NUL in a chunk extension": Case(chunked(SIZE + b";a\0b\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED),
    "no last chunk": Case(chunked(SIZE + b"\r\n" + BODY + b"\r\n"), REFUSED, ends=True),
    "no end of the trailer": Case(chunked(CHUNKS), REFUSED, ends=True),
    "a trailer without a colon": Case(chunked(CHUNKS + b"no colon\r\n\r\n"), REFUSED),
    "bare LF after the last chunk": Case(chunked(CHUNKS + b"\n"), REFUSED),
    # Sizes of what is not the body (the limit is 64 KiB each).
    "a head of 60 KiB": Case(
        OK + JSON + b"X-Long: " + b"a" * 61_000 + b"\r\n" + LENGTH + b"\r\n" + BODY, RIGHT, is_kept=True
    ),
    "a head of 6,000 headers": Case(OK + JSON + b"X-N: 1\r\n" * 6_000 + LENGTH + b"\r\n" + BODY, RIGHT, is_kept=True),
    "a head above the limit": Case(
        OK + JSON + b"X-Long: " + b"a" * 200_000 + b"\r\n" + LENGTH + b"\r\n" + BODY, REFUSED
    ),
    "a head of too many headers": Case(OK + JSON + b"X-N: 1\r\n" * 30_000 + LENGTH + b"\r\n" + BODY, REFUSED),
    "a status line above the limit": Case(b"HTTP/1.1 200 " + b"a" * 200_000 + PLAIN[12:], REFUSED),
    "a head without end": Case(OK + b"X: y\r\n" * 40_000, REFUSED),
    "a 1xx head above the limit": Case(
        b"HTTP/1.1 103 Early\r\nX-Long: " + b"a" * 200_000 + b"\r\n\r\n" + PLAIN, REFUSED
    ),
    "a chunk extension above the limit": Case(
        chunked(SIZE + b";" + b"a" * 200_000 + b"\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED
    ),
    "a trailer above the limit": Case(chunked(CHUNKS + b"X-Long: " + b"a" * 200_000 + b"\r\n\r\n"), REFUSED),
    "a trailer of too many fields": Case(chunked(CHUNKS + b"X-N: 1\r\n" * 30_000 + b"\r\n"), REFUSED),
    "zeros before a chunk size above the limit": Case(
        chunked(b"0" * 200_000 + SIZE + b"\r\n" + BODY + b"\r\n0\r\n\r\n"), REFUSED
    ),
    # Another protocol on the connection.
    "101": Case(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + PLAIN, REFUSED),
    "101 without headers": Case(b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + PLAIN, REFUSED),
    "an upgrade that is offered": Case(
        OK + JSON + LENGTH + b"Upgrade: h2c\r\nConnection: upgrade\r\n\r\n" + BODY, RIGHT, is_kept=True
    ),
    # Bytes after the end.
    "a second answer": Case(PLAIN + SMUGGLED, RIGHT),
    "a second answer after chunks": Case(chunked(CHUNKS + b"\r\n") + SMUGGLED, RIGHT),
    "a chunked second answer": Case(2 * chunked(CHUNKS + b"\r\n"), RIGHT),
    "a second answer after Connection: close": Case(
        OK + JSON + LENGTH + b"Connection: close\r\n\r\n" + BODY + SMUGGLED, RIGHT
    ),
    "a second answer after 202": Case(
        head(b"Content-Length: 0", status=b"HTTP/1.1 202 Accepted") + SMUGGLED, (202, b"")
    ),
    "a second answer after 204": Case(head(status=b"HTTP/1.1 204 No Content") + SMUGGLED, (204, b"")),
    "a line end after the answer": Case(PLAIN + b"\r\n", RIGHT),
    "rubbish after the answer": Case(PLAIN + b"\0\0\0", RIGHT),
}


@contextmanager
def one_answer(answer: bytes, ends: bool) -> Iterator[int]:
    """A server for one connection: reads a request, sends the answer, and waits until the caller closes."""

    def serve() -> None:
        with suppress(OSError), listener.accept()[0] as peer:
            request = peer.makefile("rb")
            size = 0
            while (line := request.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    size = int(line.partition(b":")[2])
            request.read(size)
            peer.sendall(answer)
            if ends:
                peer.shutdown(socket.SHUT_WR)
            peer.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield listener.getsockname()[1]
        server.join(10)
        assert not server.is_alive(), "the connection is still open"


async def read_rest(exchange: HttpExchange) -> str | tuple[int, bytes]:
    """What the official client gets of an answer that is handed over."""
    try:
        response = await UnreadAnswer(exchange).make_response()
        return response.status_code, b"".join([piece async for piece in response.stream])  # type: ignore[union-attr]
    except httpx2.TransportError:
        return REFUSED
    finally:
        exchange.close()


def connect(port: int) -> DirectHttp:
    place = HttpTarget("127.0.0.1", port, f"127.0.0.1:{port}", b"/mcp")
    return DirectHttp(place, {}, lambda data, options: None, None, LIMIT, 10.0)


def take(answer: bytes, ends: bool = False) -> tuple[str | tuple[int, bytes], bool]:
    """What an answer becomes, and whether its connection is kept."""
    with one_answer(answer, ends) as port:
        direct = connect(port)
        run = RequestRun(get_shared_loop(), "tools/call", None)
        try:
            result = direct.send(run, "tools/call", {"name": "x"})
            if result is not None:
                return str(result["from"]), bool(direct._idle)
            assert isinstance(run.exchange, HttpExchange)
            return asyncio.run(asyncio.wait_for(read_rest(run.exchange), 10)), bool(direct._idle)
        finally:
            direct.close()


@pytest.mark.parametrize("name", CASES)
def test_an_unusual_answer_is_taken_as_the_table_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    monkeypatch.setattr(direct_http, "make_request_id", lambda: ID)
    assert take(case.answer, case.ends) == (case.expected, case.is_kept)


def test_an_answer_to_another_request_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_http, "make_request_id", lambda: "another")
    assert take(PLAIN) == ((200, BODY), True)


@pytest.mark.parametrize("first", [PLAIN, chunked(CHUNKS + b"\r\n")], ids=["length", "chunked"])
def test_a_second_answer_is_not_that_of_the_next_request(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_http, "make_request_id", lambda: ID)
    with one_answer(first + SMUGGLED, False) as port:
        direct = connect(port)
        assert direct.send(RequestRun(get_shared_loop(), "tools/call", None), "tools/call", {}) == {"from": "right"}
        following = RequestRun(get_shared_loop(), "tools/call", 0.0)
        assert direct.send(following, "tools/call", {}) is None
        assert isinstance(following.exchange, HttpExchange)
        following.exchange.close()
        direct.close()


def parse(answer: bytes, step: int, ends: bool) -> object:
    """Parse an answer in steps of so many bytes."""
    parsed = Answer()
    try:
        for start in range(0, len(answer), step):
            parsed.receive(answer[start : start + step])
        if ends:
            parsed.receive(b"")
    except BadMessage:
        return REFUSED
    return parsed.head, b"".join(parsed.pieces), parsed.complete, parsed.is_reusable


@pytest.mark.parametrize("name", CASES)
def test_an_answer_in_small_pieces_is_the_same(name: str) -> None:
    case = CASES[name]
    at_once = parse(case.answer, READ_BYTES, case.ends)
    if len(case.answer) < 10_000:
        assert parse(case.answer, 1, case.ends) == at_once
    assert parse(case.answer, 1_000, case.ends) == at_once
