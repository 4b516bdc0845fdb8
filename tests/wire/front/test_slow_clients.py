"""Connections that do not move: what counts as late, and what is left alone (THREATS M9, M17, X5, X6)."""

from __future__ import annotations

import logging
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from patchbay.settings import Settings
from patchbay.wire.front.slow_clients import ClientConnection, SlowClientWatch
from patchbay.wire.front.sockets import DESCRIPTORS, ESTABLISHED, Counters, shut_down
from patchbay.wire.requests.at_work import AtWork
from patchbay.wire.requests.bodies import TooSlow, read_body
from patchbay.wire.requests.request import Body, Request
from tests.waiting import until

WRITE, IDLE = 10.0, 20.0


class Connection:
    """A connection in a made-up time, in seconds: what the kernel would say of it, and what is made of that."""

    def __init__(self) -> None:
        self.at = self.sent_at = self.received_at = 0.0
        self.acknowledged = self.received = 0
        self.pending = False
        self.peer = ClientConnection()

    def receives(self, count: int) -> None:
        self.received += count
        self.received_at = self.at

    def sends(self, count: int, taken: bool = True) -> None:
        self.sent_at = self.at
        self.pending = not taken
        self.acknowledged += count if taken else 0

    def looked_at(self, seconds: float) -> str | None:
        """What is said `seconds` later."""
        self.at += seconds
        ages = self.at - self.sent_at, self.at - self.received_at
        counters = Counters(ESTABLISHED, self.pending, *ages, self.acknowledged, self.received)
        return self.peer.late(counters, self.at, WRITE, IDLE)


@pytest.fixture
def connection() -> Connection:
    """A connection that a request has just come by."""
    made = Connection()
    made.at = 1.0
    made.receives(300)
    assert made.looked_at(1) is None
    return made


def test_a_reader_that_takes_nothing_is_late_after_the_write_timeout(connection: Connection) -> None:
    connection.sends(1000, taken=False)
    assert [connection.looked_at(5), connection.looked_at(5)] == [None, None]
    assert connection.looked_at(5) == "its client has not read for 10 s"


def test_a_reader_that_takes_a_little_is_never_late(connection: Connection) -> None:
    """X6: however much there is for it."""
    connection.sends(1000, taken=False)
    for _ in range(100):
        connection.acknowledged += 1
        assert connection.looked_at(WRITE - 1) is None


def test_a_request_that_drips_is_late(connection: Connection) -> None:
    """M17: a byte a second, without end."""
    said: list[str | None] = []
    while not any(said):
        connection.receives(1)
        said.append(connection.looked_at(1))
        assert connection.at < 2 * IDLE
    assert connection.at > IDLE
    assert said[-1] == "a request was still arriving 21 s after it began"


def test_a_large_request_has_more_time(connection: Connection) -> None:
    for _ in range(100):
        connection.receives(2048)
        assert connection.looked_at(1) is None


def test_requests_one_after_the_other_are_not_one_slow_request(connection: Connection) -> None:
    for _ in range(100):
        connection.sends(100)
        connection.at += 0.1
        connection.receives(300)
        assert connection.looked_at(5) is None


def test_waiting_for_an_answer_is_not_slow(connection: Connection) -> None:
    """A whole request: nothing more comes, and that is as it should be."""
    assert connection.looked_at(10 * IDLE) is None


@pytest.fixture
def pairs() -> Iterator[tuple[SlowClientWatch, socket.socket, socket.socket]]:
    """Peers of a listening socket with both ends of one connection to it: the accepted one and the other."""
    with ExitStack() as opened:
        listening = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listening.getsockname()[1]
        other = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        accepted = opened.enter_context(listening.accept()[0])
        settings = Settings(port=port, write_timeout=0.2, idle_timeout=600)
        yield SlowClientWatch(settings, AtWork(60)), accepted, other


def full(sender: socket.socket) -> None:
    """Send until nothing more goes."""
    sender.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            sender.send(bytes(65536))


def closed_after_a_look(watched: SlowClientWatch, sender: socket.socket) -> bool:
    watched.check_connections()
    try:
        sender.send(b"x")
    except BlockingIOError:
        return False
    except OSError:
        return True
    return False


def test_only_accepted_connections_are_cut_off(
    pairs: tuple[SlowClientWatch, socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that this process opened is not watched, stuck or not."""
    watched, accepted, other = pairs
    full(accepted)
    full(other)
    with caplog.at_level(logging.INFO):
        until(lambda: closed_after_a_look(watched, accepted), "the accepted end is shut down")
    [record] = caplog.records
    assert record.getMessage() == "the connection from 127.0.0.1 is closed: its client has not read for 0.2 s"


def test_a_descriptor_that_was_used_again_is_left_alone(
    pairs: tuple[SlowClientWatch, socket.socket, socket.socket],
) -> None:
    _, accepted, other = pairs
    number, descriptors = os.fstat(accepted.fileno()).st_ino, len(list(DESCRIPTORS.iterdir()))
    assert shut_down(accepted.fileno(), number + 1, whole=True) is None
    assert shut_down(10**6, number, whole=True) is None
    accepted.send(b"there")
    assert other.recv(5) == b"there"
    assert shut_down(accepted.fileno(), number, whole=True) == "127.0.0.1"
    assert len(list(DESCRIPTORS.iterdir())) == descriptors


def test_it_works_without_a_descriptor_left(pairs: tuple[SlowClientWatch, socket.socket, socket.socket]) -> None:
    """X25: closing those connections makes room."""
    watched, accepted, _ = pairs
    full(accepted)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        free = os.dup(0)
        opened.callback(os.close, free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 8, before[1]))
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                opened.callback(os.close, os.dup(0))
        until(lambda: closed_after_a_look(watched, accepted), "the accepted end is shut down")


def test_other_descriptors_are_ignored(pairs: tuple[SlowClientWatch, socket.socket, socket.socket]) -> None:
    watched, _, _ = pairs
    left, right = socket.socketpair()
    with left, right, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        full(left)
        datagrams.bind(("127.0.0.1", 0))
        for _ in range(3):
            watched.check_connections()
        assert right.recv(1) == b"\0"


def test_a_body_that_the_hub_cuts_off_was_too_slow_although_its_thread_began_to_wait_later() -> None:
    """X17: on a busy machine, the thread of a request can be late."""
    with ExitStack() as opened:
        listening = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listening.getsockname()[1]
        sender = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        accepted = opened.enter_context(listening.accept()[0])
        stream = opened.enter_context(accepted.makefile("rb"))
        host, own_port = sender.getsockname()
        request = Request("POST", "/", "", {"content-length": "10"}, Body(stream), {}, connection=f"{host}:{own_port}")
        request.body.at_work = at_work = AtWork(600)
        watch = SlowClientWatch(Settings(port=port, idle_timeout=0.2, keepalive=0.1), at_work)
        sender.sendall(b"{")

        def is_cut_off() -> bool:
            watch.check_connections()
            return bool(at_work.cut_off)

        until(is_cut_off, "the connection is shut down")
        with pytest.raises(TooSlow):
            at_work.begin()
            read_body(request, 100)
        sender.close()
        accepted.shutdown(socket.SHUT_RDWR)
        stream.close()
        accepted.close()
        watch.check_connections()
        assert not at_work.cut_off
