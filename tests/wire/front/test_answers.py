"""What a reader has not taken of a stream is known from the kernel, over a real connection.

Requirements: X6; DESIGN 6 (every queue has a bound).
"""

from __future__ import annotations

import socket
import struct
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing
from typing import cast

import pytest

from patchbay.wire.front import sockets
from patchbay.wire.front.answers import UNCHECKED_BYTES, UNREAD_BYTES, Flow, StartedAnswer, send_answer
from patchbay.wire.front.connection_index import find_connection
from patchbay.wire.requests.rsgi import HttpProtocol
from tests.waiting import until

PIECE = 16 * 1024
BOUND = 60.0


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection: this end, which sends, and the reader."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        reader = socket.create_connection(server.getsockname())
        with closing(reader), closing(server.accept()[0]) as sender:
            yield sender, reader


def named(connection: socket.socket) -> str:
    host, port = connection.getpeername()
    return f"{host}:{port}"


def test_a_connection_is_found_by_its_other_end(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, _ = pair
    one, other = socket.socketpair()
    with one, other:  # sockets without a port are passed over
        found = find_connection(named(sender))
        assert found is not None and found[0] == sender.fileno()
    client = named(sender)
    sender.close()
    assert find_connection(client) is None


def test_a_connection_among_many_is_found(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, _ = pair
    others = [socket.socket() for _ in range(100)]
    try:
        found = find_connection(named(sender))
        assert found is not None and found[0] == sender.fileno()
    finally:
        for other in others:
            other.close()


def test_a_reader_that_takes_nothing_is_behind_and_one_that_takes_all_is_not(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    sender, reader = pair
    sender.setblocking(False)
    flow, handed = Flow(named(sender)), 0
    # As the web server does, more is taken than the kernel has room for.
    while not (flow.add(PIECE) and flow.is_behind()):
        handed += PIECE
        try:
            sender.send(b"x" * PIECE)
        except BlockingIOError:
            continue
        assert handed < 64 * 1024 * 1024, "a reader that takes nothing is noticed"
    assert handed >= UNREAD_BYTES - UNCHECKED_BYTES
    sender.setblocking(True)
    reading = threading.Thread(target=lambda: [None for _ in iter(lambda: reader.recv(1 << 20), b"")])
    reading.start()
    for _ in range(handed // PIECE):
        sender.sendall(b"x" * PIECE)
    waiting = threading.Thread(target=flow.wait)
    waiting.start()
    waiting.join(BOUND)
    assert not waiting.is_alive(), "the reader has caught up"
    sender.close()
    reading.join(BOUND)


def test_a_connection_that_is_gone_is_not_waited_for(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, _ = pair
    flow = Flow(named(sender))
    sender.close()
    assert flow.add(UNCHECKED_BYTES)
    assert flow.is_behind() is None
    flow.wait()


@pytest.fixture(params=["full", "short", "none"])
def tcp_info(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the system tells of a connection: all counters, fewer (Linux before 4.6), or none (macOS)."""
    kind: str = request.param
    if kind == "none":
        monkeypatch.delattr(socket, "TCP_INFO")
    elif kind == "short":
        monkeypatch.setattr(sockets, "INFO", struct.Struct(sockets.INFO.format + "4096x"))
    return kind


def test_an_open_connection_is_never_gone_and_a_closed_one_is(
    pair: tuple[socket.socket, socket.socket], tcp_info: str
) -> None:
    sender, reader = pair
    flow = Flow(named(sender))
    assert [flow.is_gone() for _ in range(3)] == [False] * 3
    assert (sockets.Counters.of(sender.fileno()) is not None) == (tcp_info == "full")
    assert bool(flow.is_behind()) is False
    sender.close()
    assert flow.is_gone()
    reader.close()


def test_a_reader_that_resets_the_connection_is_gone(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, reader = pair
    flow = Flow(named(sender))
    assert not flow.is_gone()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, sockets.ABORT)
    reader.close()
    until(flow.is_gone, "the reset has arrived")


class SentStream:
    """The stream of the web server: the answer ends when this object goes."""

    def cut(self) -> None: ...

    def send_bytes(self, data: bytes) -> Iterator[None]:
        return iter(())


class StreamProtocol:
    """The interface of the web server for one answer; `stream` refers weakly to what it made."""

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> SentStream:
        stream = SentStream()
        self.stream = weakref.ref(stream)
        return stream


class KeepingBody:
    """A body of two pieces, whose exceptions and so its frames stay: `kept` has them."""

    def __init__(self) -> None:
        self.kept: list[Exception] = []

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if len(self.kept) == 2:
            raise StopIteration
        try:
            raise ValueError("a store that fails")
        except ValueError as problem:
            self.kept.append(problem)
        return b"piece"


def test_an_answer_ends_with_its_body_although_exceptions_of_the_body_are_kept() -> None:
    """The tracebacks keep the frames of the callers; a waiting client would get the end after a garbage collection."""
    protocol, body = StreamProtocol(), KeepingBody()
    send_answer(cast(HttpProtocol, protocol), "127.0.0.1:1", StartedAnswer(), body)
    assert len(body.kept) == 2 and protocol.stream() is None
