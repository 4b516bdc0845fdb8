"""The threads of a server, its limit of connections, and its end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from patchbay.wire.server.connection import Connection
from tests.waiting import BOUND, until
from tests.wire.server.conftest import Served, read_all, read_until
from tests.wire.server.test_connection import GET, echo

Serve = Callable[..., Served]


def test_a_request_that_blocks_keeps_no_other_waiting(serve: Serve) -> None:
    go = threading.Event()

    def front(scope: Any, protocol: Any) -> None:
        if scope.path == "/slow":
            go.wait()
        echo(scope, protocol)

    served = serve(front)
    slow = served.connect()
    slow.sendall(GET.replace(b"/a", b"/slow"))
    for _ in range(20):
        assert served.ask(GET).startswith(b"HTTP/1.1 200")
    go.set()
    assert read_until(slow, b"\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_connections_over_the_limit_wait_for_the_end_of_others(serve: Serve) -> None:
    served = serve(echo, most=2)
    first, second, third = (served.connect() for _ in range(3))
    for client in (first, second):
        client.sendall(GET)
        assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 200")
    third.sendall(GET)
    first.close()
    assert read_until(third, b"\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_a_server_that_stops_answers_what_runs_and_closes_what_waits(serve: Serve) -> None:
    go, runs = threading.Event(), threading.Event()

    def front(scope: Any, protocol: Any) -> None:
        runs.set()
        go.wait()
        echo(scope, protocol)

    served = serve(front)
    idle, busy = served.connect(), served.connect()
    busy.sendall(GET)
    assert runs.wait(BOUND)
    served.server.stop()
    assert idle.recv(1) == b""
    until(lambda: not accepts(served), "no further connection is taken")
    go.set()
    answer = read_all(busy)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer


def test_a_connection_whose_answer_is_being_sent_is_not_idle(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stops ends idle connections, and a request ends before its answer is sent."""
    write = Connection.write

    def look_and_write(self: Connection, data: bytes, more: bytes = b"") -> None:
        looks = threading.Thread(target=self.end_if_idle)
        looks.start()
        looks.join(0.2)  # the look waits until the answer is sent
        write(self, data, more)

    monkeypatch.setattr(Connection, "write", look_and_write)
    client = serve(echo).connect()
    client.sendall(GET)
    assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_a_server_that_has_stopped_has_no_thread(serve: Serve) -> None:
    """A process that starts and stops several servers does not collect their threads."""
    before = set(threading.enumerate())
    served = serve(echo)
    own = [one for one in threading.enumerate() if one not in before and one.name.startswith("http-")]
    assert len(own) == 3
    assert served.ask(GET).startswith(b"HTTP/1.1 200")
    served.end()
    for thread in own:
        thread.join(BOUND)
        assert not thread.is_alive()


def accepts(served: Served) -> bool:
    try:
        socket.create_connection(served.address, BOUND).close()
    except ConnectionError:
        return False
    return True
