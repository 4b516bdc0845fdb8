"""Answers and bodies of one request, over real sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from patchbay.wire.server.exchange import MAX_ARRIVED_BYTES
from tests.waiting import BOUND, until
from tests.wire.server.conftest import Served, read_until
from tests.wire.server.test_connection import GET, POST

Serve = Callable[..., Served]


def note(event: threading.Event, result: Any) -> None:
    event.set()


def test_an_interim_answer_comes_when_the_body_is_read_and_not_before(serve: Serve) -> None:
    """RFC 9110, 10.1.1: a body that is refused by its head is never asked for."""

    def front(scope: Any, protocol: Any) -> None:
        if scope.path == "/refused":
            protocol.response_empty(413, [])
        else:
            protocol().add_done_callback(lambda body: protocol.response_bytes(200, [], body.result()), None)

    served = serve(front)
    expecting = POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    client = served.connect()
    client.sendall(expecting)
    assert read_until(client, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.sendall(b"abc")
    assert read_until(client, b"abc").startswith(b"HTTP/1.1 200")
    refused = served.connect()
    refused.sendall(expecting.replace(b"/a", b"/refused"))
    assert read_until(refused, b"\r\n\r\n").startswith(b"HTTP/1.1 413")


def test_a_long_body_is_received_as_it_is_read(serve: Serve) -> None:
    """The memory of a body that is not read is limited."""
    begun, go, seen = threading.Event(), threading.Event(), []

    def front(scope: Any, protocol: Any) -> None:
        def read() -> None:
            protocol.__aiter__()
            begun.set()
            go.wait()
            while True:
                arrived = threading.Event()
                result = protocol.__anext__()
                result.add_done_callback(partial(note, arrived), None)
                arrived.wait()
                if not (piece := result.result()):
                    break
                seen.append(len(piece))
            protocol.response_bytes(200, [], b"%d" % sum(seen))

        threading.Thread(target=read).start()

    size = 40 * MAX_ARRIVED_BYTES
    client = serve(front).connect()
    sending = threading.Thread(target=client.sendall, args=(POST + b"Content-Length: %d\r\n\r\n" % size + b"a" * size,))
    sending.start()
    assert begun.wait(BOUND)
    assert sending.is_alive()  # far more than the buffers of the system hold is left
    go.set()
    assert read_until(client, b"%d" % size).startswith(b"HTTP/1.1 200")
    sending.join(BOUND)


def test_a_header_with_a_line_end_is_never_sent(serve: Serve) -> None:
    """CWE-113: it would begin another header, or another answer."""

    def front(scope: Any, protocol: Any) -> None:
        for value in ("a\r\nSet-Cookie: b=c", "a\nb", "a\rb", "a\0b"):
            with pytest.raises(ValueError, match="line end"):
                protocol.response_bytes(200, [("X-A", value)], b"")
        protocol.response_empty(500, [])

    assert serve(front).ask(GET).startswith(b"HTTP/1.1 500")


def test_an_answer_without_a_length_is_in_chunks_or_ends_with_the_connection(serve: Serve) -> None:
    """RFC 9112, 6.3: HTTP/1.0 knows no chunks."""

    def front(scope: Any, protocol: Any) -> None:
        stream = protocol.response_stream(200, [])
        stream.send_bytes(b"one")
        stream.send_bytes(b"")
        stream.send_bytes(b"two")

    served = serve(front)
    head, _, body = served.ask(GET).partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert body == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    head, _, body = served.ask(GET.replace(b"1.1", b"1.0")).partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert body == b"onetwo"


@pytest.mark.parametrize(("method", "status"), [(b"HEAD", 200), (b"GET", 204), (b"GET", 304)])
def test_an_answer_that_has_no_body_gets_none(serve: Serve, method: bytes, status: int) -> None:
    def front(scope: Any, protocol: Any) -> None:
        protocol.response_bytes(status, [], b"body")

    answer = serve(front).ask(GET.replace(b"GET", method) + GET.replace(b"GET", method))
    assert answer.count(b"HTTP/1.1 %d" % status) == 2
    assert b"body" not in answer
    assert (b"content-length: 4" in answer) is (status == 200)


def test_a_running_request_learns_that_its_client_has_left(serve: Serve) -> None:
    left, told = threading.Event(), []

    def front(scope: Any, protocol: Any) -> None:
        told.append(protocol)
        protocol.client_disconnect().add_done_callback(lambda _: left.set(), None)

    served = serve(front)
    client = served.connect()
    client.sendall(GET)
    until(lambda: told, "the request runs")
    client.close()
    assert left.wait(BOUND)
    told.pop().response_bytes(200, [], b"late")


def test_a_slow_reader_gets_a_long_answer_whole(serve: Serve) -> None:
    body = bytes(range(256)) * 40_000

    def front(scope: Any, protocol: Any) -> None:
        protocol.response_bytes(200, [], body)

    client = serve(front).connect()
    client.sendall(GET + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    found = bytearray()
    while piece := client.recv(10_000):
        found += piece
    first, _, second = bytes(found).partition(b"\r\n\r\n")[2].partition(b"HTTP/1.1 200 OK")
    assert first == body
    assert second.partition(b"\r\n\r\n")[2] == body


@pytest.mark.parametrize("way", ["whole", "stream"])
def test_an_answer_of_another_length_than_it_announces_is_no_part_of_the_next_one(serve: Serve, way: str) -> None:
    """RFC 9112, section 6.3: a client would read the next answer as the rest of this one."""

    def front(scope: Any, protocol: Any) -> None:
        if scope.path == "/next":
            protocol.response_bytes(200, [], b"next")
        elif way == "whole":
            protocol.response_bytes(200, [("Content-Length", "100")], b"short")
        else:
            protocol.response_stream(200, [("Content-Length", "100")]).send_bytes(b"short")

    answer = serve(front).ask(GET + GET.replace(b"/a", b"/next"))
    if way == "whole":
        assert b"content-length: 5\r\n" in answer and answer.endswith(b"next")
    else:
        assert answer.endswith(b"\r\n\r\nshort")


def test_a_stream_never_sends_more_than_it_announces(serve: Serve) -> None:
    def front(scope: Any, protocol: Any) -> None:
        protocol.response_stream(200, [("Content-Length", "3")]).send_bytes(b"abcHTTP/1.1 200 OK")

    assert serve(front).ask(GET).endswith(b"\r\n\r\nabc")


def test_a_stream_that_is_cut_has_no_end(serve: Serve) -> None:
    """RFC 9112, section 8: its reader sees that it is not whole."""

    def front(scope: Any, protocol: Any) -> None:
        stream = protocol.response_stream(200, [])
        stream.send_bytes(b"abc")
        stream.cut()

    assert serve(front).ask(GET).endswith(b"\r\n\r\n3\r\nabc\r\n")
