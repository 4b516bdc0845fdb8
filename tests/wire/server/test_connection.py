"""Heads, bodies and the order of requests on one connection, over real sockets."""

from __future__ import annotations

import gc
import io
import itertools
import re
import socket
import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from httptools import HttpRequestParser

from patchbay.wire.requests.rsgi import ArrivingBody
from patchbay.wire.server.connection import MAX_HEAD_BYTES, MAX_HEADERS, MAX_WAITING_REQUESTS
from patchbay.wire.server.exchange import MAX_ARRIVED_PIECES
from tests.waiting import BOUND, until
from tests.wire.server.conftest import Served, read_all, read_until

Serve = Callable[..., Served]

GET = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: localhost\r\n"


def statuses(answer: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


def echo(scope: Any, protocol: Any) -> None:
    """Answer with the path and the body, or 400 for a body that is cut off."""

    def answer(body: Any) -> None:
        try:
            protocol.response_bytes(200, [("X-Path", scope.path)], bytes(body.result()))
        except OSError:
            protocol.response_empty(400, [])

    protocol().add_done_callback(answer, None)


def answer_after(event: threading.Event, scope: Any, protocol: Any) -> None:
    event.wait()
    echo(scope, protocol)


@pytest.mark.parametrize(
    "sent",
    [
        POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST + b"Connection: upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\xff\r\n\r\n",
        POST + b"Content-Length: +3\r\n\r\nabc",
        POST + b"Content-Length : 3\r\n\r\nabc",
        POST + b"X-A: a\r\n b\r\n\r\n",
        POST + b"X-A: a\0b\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
        b"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        GET.replace(b"\r\n", b"\n"),
        GET.replace(b" /", b"  /"),
        GET.replace(b" /", b"\t/"),
        GET.replace(b"GET", b"get"),
        GET.replace(b"/a", b"/a#b"),
        GET.replace(b"/a", b'/"a"'),
        GET.replace(b"/a", "/é".encode()),
        GET.replace(b"1.1", b"1.2"),
        GET.replace(b"1.1", b"2.0"),
        b"GET /a\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        GET[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 12\r\n\r\n",
        POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_a_head_that_can_be_read_in_two_ways_runs_nothing_and_ends_the_connection(serve: Serve, sent: bytes) -> None:
    """RFC 9112, sections 2.2, 3, 5 and 6: a request after it, which could be hidden in it, does not run either."""
    begun: list[str] = []

    def front(scope: Any, protocol: Any) -> None:
        begun.append(scope.path)
        echo(scope, protocol)

    answer = serve(front).ask(sent + GET)
    assert (statuses(answer), begun) == ([400], [])
    assert b"the request cannot be read: " in answer


ODD_GETS = [
    GET.replace(b" /", b"  /"),
    GET.replace(b" /", b"\t/"),
    GET.replace(b"GET", b"get"),
    b"\r\n" + GET[:5] + GET,
]
"""Requests whose line the parser itself accepts after another request."""

BEFORE_ODD = {
    "a head": GET,
    "a body": POST + b"Content-Length: 3\r\n\r\nabc",
    "a body that ends with an empty line": POST + b"Content-Length: 4\r\n\r\n\r\n\r\n",
    "a body in chunks": POST + b"Transfer-Encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n",
    "a chunk extension": POST + b"Transfer-Encoding: chunked\r\n\r\n1;a=b\r\na\r\n0;a=b\r\n\r\n",
    "a request for another protocol": GET[:-2] + b"Connection: Upgrade\r\nUpgrade: x\r\n\r\n",
}


def test_a_later_request_in_the_same_bytes_is_read_as_strictly_as_the_first(serve: Serve) -> None:
    """RFC 9112, section 3: however the bytes are divided, the request with the odd line does not run."""
    begun: list[str] = []

    def front(scope: Any, protocol: Any) -> None:
        begun.append(scope.path)
        echo(scope, protocol)

    served = serve(front)
    for before, odd, piece in itertools.product(BEFORE_ODD, ODD_GETS, (1, 2, 3, 5, 8192)):
        sent = BEFORE_ODD[before] + odd
        client = served.connect()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(sent), piece):
            client.sendall(sent[at : at + piece])
        assert statuses(read_all(client)) == [200, 400], (before, odd, piece)
        assert begun == ["/a"], (before, odd, piece)
        begun.clear()


def test_a_body_may_have_lines_that_look_like_the_head_of_a_request(serve: Serve) -> None:
    """Such a body is one value, also with another request before and after it in the same bytes."""
    body = b"\r\n\r\nGET  /b HTTP/1.1\r\n\r\n\nPOST\t/b HTTP/1.1\r\n\r\n"
    counted = POST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    answer = serve(echo).ask(GET + counted + chunked + GET)
    assert statuses(answer) == [200] * 4
    assert answer.count(body) == 2


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"".join(b"X-%d: a\r\n" % number for number in range(MAX_HEADERS)), 431),
        (b"X-A: " + b"a" * 2 * MAX_HEAD_BYTES + b"\r\n", 431),
        (b"X-A: " + b"a" * MAX_HEAD_BYTES + b"\r\n", 431),
    ],
)
def test_a_head_over_the_limits_gets_431(serve: Serve, head: bytes, status: int) -> None:
    assert statuses(serve(echo).ask(GET[:-2] + head + b"\r\n")) == [status]


@pytest.mark.parametrize("size", [MAX_HEAD_BYTES, 2 * MAX_HEAD_BYTES])
def test_a_target_over_the_limit_gets_414(serve: Serve, size: int) -> None:
    assert statuses(serve(echo).ask(GET.replace(b"/a", b"/" + b"a" * size))) == [414]


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"gzip,chunked", b"identity, chunked", b"deflate , Chunked"])
def test_a_body_in_another_coding_is_not_served(serve: Serve, coding: bytes) -> None:
    """RFC 9112, section 6.1: 501 for a coding that the server does not understand."""
    sent = POST + b"Transfer-Encoding: " + coding + b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    assert statuses(serve(echo).ask(sent)) == [501]
    assert statuses(serve(echo).ask(POST + b"Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")) == [200]


def test_extensions_of_chunks_are_limited(serve: Serve) -> None:
    """CVE-2024-22019: the bytes of extensions are in no limit on bodies."""
    sent = POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1;" + b"a" * 200_000 + b"\r\na\r\n0\r\n\r\n"
    assert statuses(serve(echo).ask(sent)) == [400]


def test_streams_that_rest_keep_no_parser_and_no_head_and_their_connections_serve_on(serve: Serve) -> None:
    """Thousands of streams may rest for hours, each on a connection of its own."""
    resting: list[Any] = []
    exchanges: list[Any] = []

    def front(scope: Any, protocol: Any) -> None:
        exchanges.append(protocol)
        resting.append(protocol.response_stream(200, [("X-Path", scope.path)]))

    def parsers() -> int:
        gc.collect()
        return sum(isinstance(one, HttpRequestParser) for one in gc.get_objects())

    before, served = parsers(), serve(front)
    clients = [served.connect() for _ in range(20)]
    for client in clients:
        client.sendall(POST + b"X-Long: " + b"a" * 5000 + b"\r\nContent-Length: 3\r\n\r\nabc")
    for client in clients:
        read_until(client, b"\r\n\r\n")
    until(lambda: parsers() == before, "no parser is left")
    assert [len(one.lines) + len(one.headers) for one in exchanges] == [0] * 20
    until(lambda: len(resting) == 20, "the streams rest")  # the head of one arrives before it is in the list
    resting.clear()
    exchanges.clear()
    for client in clients:
        read_until(client, b"0\r\n\r\n")
        client.sendall(GET)
        read_until(client, b"\r\n\r\n")
    assert len(exchanges) == 20
    until(lambda: len(resting) == 20, "the streams rest")
    resting.clear()


def test_small_chunks_are_read_whole(serve: Serve) -> None:
    chunks = b"".join(b"1\r\n%c\r\n" % (97 + number % 26) for number in range(20_000))
    answer = serve(echo).ask(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
    assert statuses(answer) == [200]
    assert len(answer.partition(b"\r\n\r\n")[2]) == 20_000


def test_a_body_whose_reader_takes_it_whole_arrives_whole(serve: Serve) -> None:
    """More pieces than a reader of pieces lets wait arrive, each in a packet of its own."""
    read = threading.Event()

    def front(scope: Any, protocol: Any) -> None:
        protocol().add_done_callback(lambda body: protocol.response_bytes(200, [], b"%d" % len(body.result())), None)
        read.set()

    client = serve(front).connect()
    client.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
    assert read.wait(BOUND)
    sent = b"1\r\na\r\n" * (MAX_ARRIVED_PIECES // 4)
    for _ in range(8):
        client.sendall(sent)
    client.sendall(b"0\r\n\r\n")
    assert read_until(client, b"%d" % (2 * MAX_ARRIVED_PIECES)).startswith(b"HTTP/1.1 200")


def test_a_request_is_the_same_however_its_bytes_are_divided(serve: Serve) -> None:
    served = serve(echo)
    whole = POST + b"Content-Length: 5\r\n\r\nhello"
    client = served.connect()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in whole:
        client.sendall(bytes([byte]))
    assert read_until(client, b"hello").count(b"HTTP/1.1 200") == 1


def test_requests_of_one_connection_are_answered_in_their_order(serve: Serve) -> None:
    """A later one begins when the answer to the earlier one is sent, although both have arrived."""
    waiting, first_ends = [], threading.Event()

    def front(scope: Any, protocol: Any) -> None:
        waiting.append(scope.path)
        if scope.path == "/0":
            threading.Thread(target=partial(answer_after, first_ends, scope, protocol)).start()
        else:
            echo(scope, protocol)

    client = serve(front).connect()
    client.sendall(b"".join(GET.replace(b"/a", b"/%d" % number) for number in range(200)))
    first_ends.set()
    answer = b""
    while answer.count(b"\r\n\r\n") < 200:
        answer += client.recv(65536)
    assert re.findall(rb"x-path: /(\d+)", answer) == [b"%d" % number for number in range(200)]


@pytest.mark.parametrize(
    "cut",
    [
        POST + b"Content-Length: 5\r\n\r\nhell",
        POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhell",
        POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhell",
    ],
)
def test_a_body_that_is_cut_off_is_never_given_as_whole(serve: Serve, cut: bytes) -> None:
    assert statuses(serve(echo).ask(cut)) == [400]


def test_trailers_make_a_body_unreadable(serve: Serve) -> None:
    sent = POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n"
    assert statuses(serve(echo).ask(sent + GET)) == [400]


def test_the_body_of_a_request_for_another_protocol_is_no_second_request(serve: Serve) -> None:
    """`curl --http2` sends such a request; llhttp ends its reading before the body."""
    inner = GET.replace(b"/a", b"/inner")
    head = POST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n" % len(inner)
    answer = serve(echo).ask(head + inner + GET)
    assert statuses(answer) == [200, 200]
    assert re.findall(rb"x-path: (\S+)", answer) == [b"/a", b"/a"]


def test_many_requests_for_another_protocol_in_one_packet_are_all_answered(serve: Serve) -> None:
    """Each ends the reading of llhttp; to begin anew for each one takes no deeper stack."""
    many = 1200
    answer = serve(echo).ask((GET[:-2] + b"Connection: Upgrade\r\nUpgrade: x\r\n\r\n") * many)
    assert len(statuses(answer)) == many


def test_a_client_that_has_closed_its_sending_half_gets_its_answer(serve: Serve) -> None:
    assert statuses(serve(echo).ask(POST + b"Content-Length: 3\r\n\r\nabc")) == [200]


@pytest.mark.parametrize(
    ("version", "header", "stays"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: close\r\n", False),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: keep-alive\r\n", True),
    ],
)
def test_a_connection_stays_open_as_its_client_asks(serve: Serve, version: bytes, header: bytes, stays: bool) -> None:
    client = serve(echo).connect()
    client.sendall(b"GET /a HTTP/" + version + b"\r\n" + header + b"\r\n")
    answer = read_until(client, b"\r\n\r\n")
    if stays:
        client.sendall(GET)
        assert statuses(read_until(client, b"\r\n\r\n")) == [200]
    else:
        assert b"connection: close" in answer
        assert client.recv(1) == b""


def test_an_answer_before_the_end_of_the_body_arrives_and_ends_the_connection(serve: Serve) -> None:
    """The client is still sending: a connection that is closed at once would lose it the answer."""

    def front(scope: Any, protocol: Any) -> None:
        protocol.response_bytes(413, [], b"too large")

    client = serve(front).connect()
    client.sendall(POST + b"Content-Length: 10000000\r\n\r\n")
    for _ in range(20):
        client.sendall(b"a" * 50_000)
    assert read_until(client, b"too large").count(b"connection: close") == 1
    assert client.recv(1) == b""


def reset(client: socket.socket) -> None:
    """Close a connection with a reset in place of an end."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def read_body(protocol: Any) -> bytes:
    """Read a body piece by piece, as for a long one; holds the thread."""
    return io.BufferedReader(ArrivingBody(protocol)).read()


@pytest.mark.parametrize("way", ["whole", "piece by piece", "expected"])
def test_a_reset_in_the_middle_of_a_body_ends_the_request_and_gives_its_connection_back(serve: Serve, way: str) -> None:
    """Otherwise each such client would hold a connection, and a thread, until the hub ends."""
    begun, ended = threading.Event(), threading.Event()

    def front(scope: Any, protocol: Any) -> None:
        def answer(body: Any) -> None:
            with pytest.raises(OSError, match=r"\w"):
                body.result()
            protocol.response_empty(400, [])
            ended.set()

        begun.set()
        if way == "piece by piece":
            with pytest.raises(OSError, match=r"\w"):
                read_body(protocol)
            protocol.response_empty(400, [])
            ended.set()
        else:
            protocol().add_done_callback(answer, None)

    served = serve(front)
    client = served.connect()
    expects = b"Expect: 100-continue\r\n" if way == "expected" else b""
    client.sendall(POST + expects + b"Content-Length: 100\r\n\r\n" + (b"" if expects else b"abc"))
    assert begun.wait(60)
    reset(client)
    assert ended.wait(60)
    until(lambda: not served.server._connections, "the connection is given back")


def test_a_front_that_fails_ends_its_connection(serve: Serve) -> None:
    def front(scope: Any, protocol: Any) -> None:
        protocol.response_bytes(200, [("X-A", "a\r\nb: c")], b"")

    served = serve(front)
    client = served.connect()
    client.sendall(GET)
    assert client.recv(65536) == b""
    until(lambda: not served.server._connections, "the connection is given back")


def test_a_request_that_arrived_before_the_server_stops_gets_its_answer(serve: Serve) -> None:
    """Nothing that has been received whole is lost by a reload."""
    busy, go = threading.Event(), threading.Event()
    served = serve(partial(answer_first_after, busy, go), threads=1)
    waiting = served.connect()
    waiting.sendall(GET)
    assert read_until(waiting, b"\r\n\r\n").startswith(b"HTTP/1.1 200")
    other = served.connect()
    other.sendall(GET.replace(b"/a", b"/wait"))
    assert busy.wait(60)
    waiting.sendall(GET)
    stopping = threading.Thread(target=served.server.stop)
    stopping.start()
    stopping.join()
    go.set()
    assert statuses(read_all(waiting)) == [200]


def answer_first_after(busy: threading.Event, go: threading.Event, scope: Any, protocol: Any) -> None:
    """Answer /wait when `go` is set, on the thread of the server, and other paths at once."""
    if scope.path == "/wait":
        busy.set()
        go.wait()
    protocol.response_bytes(200, [], b"")


class HalfSent:
    """A socket whose first `send` takes a part of the data, when another thread waits to send or to close."""

    def __init__(self, connection: Any) -> None:
        self._socket, self._lock = connection.socket, connection._sending
        self._other = threading.Thread(target=connection.run)
        self._is_awaited = threading.Event()
        connection.socket = connection._sending = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def __enter__(self) -> None:
        if threading.current_thread() is self._other:
            self._is_awaited.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def send(self, data: bytes) -> int:
        if self._is_awaited.is_set():
            return int(self._socket.send(data))
        self._other.start()
        assert self._is_awaited.wait(BOUND)
        return int(self._socket.send(data[:10]))


def test_an_answer_follows_the_whole_of_the_one_before_it_also_when_its_request_begins_early(serve: Serve) -> None:
    """A request begins on another thread while the last bytes of the answer before it are being sent."""

    def front(scope: Any, protocol: Any) -> None:
        if scope.path == "/a":
            HalfSent(scope._connection)
        protocol.response_bytes(200, [], scope.path.encode() * 50)

    closing = GET.replace(b"/a", b"/b")[:-2] + b"Connection: close\r\n\r\n"
    client = serve(front).connect()
    client.sendall(GET + closing)
    assert re.findall(rb"\r\n\r\n((?:/[ab])+)", read_all(client)) == [b"/a" * 50, b"/b" * 50]


def test_the_requests_of_one_connection_that_wait_are_limited(serve: Serve) -> None:
    """A connection keeps little memory for what its client sends before it reads an answer."""
    go = threading.Event()

    def front(scope: Any, protocol: Any) -> None:
        protocol().add_done_callback(lambda _: None, None)
        threading.Thread(target=lambda: (go.wait(), protocol.response_bytes(200, [], b""))).start()

    served = serve(front)
    client = served.connect()
    client.sendall(POST + b"Content-Length: 3\r\n\r\nab")
    until(lambda: [one for one in served.server._connections.values() if one._exchange], "the first request runs")
    client.sendall(b"c" + b"GET / HTTP/1.1\r\n\r\n" * 3000)
    (connection,) = served.server._connections.values()
    until(lambda: connection._broken is not None, "the limit is reached")
    assert len(connection._arrived) <= MAX_WAITING_REQUESTS
    go.set()
    assert statuses(read_all(client))[-1] == 400
