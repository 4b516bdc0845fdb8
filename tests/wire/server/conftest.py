"""A server of HTTP on a free port, whose front is a function of the test."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest

from patchbay.wire.front.event_loop import EventLoop
from patchbay.wire.server.http_server import HttpServer
from tests.waiting import BOUND, until

Front = Callable[[Any, Any], None]

event_loop = cache(EventLoop)
"""One for all servers of the tests: it runs to the end of the process."""


class Served:
    """A running server, and clients of it."""

    def __init__(self, front: Front, most: int, clients: ExitStack, threads: int) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()
        self.server = HttpServer(listener, front, threads=threads, most=most, loop=event_loop())
        self.server.start()
        self._clients = clients
        self._has_ended = False

    def end(self) -> None:
        """Stop the server, whose connections have to close; once."""
        if not self._has_ended:
            self._has_ended = True
            self.server.stop()
            until(lambda: not self.server._connections, "the connections are closed")
            self.server.wait_closed()

    def connect(self) -> socket.socket:
        """Open a connection, which ends with the test."""
        return self._clients.enter_context(socket.create_connection(self.address, BOUND))

    def ask(self, sent: bytes) -> bytes:
        """Send bytes, close the sending half, and return all that comes back."""
        client = self.connect()
        try:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
        except OSError:  # the server has refused the beginning and closed the connection
            pass
        return read_all(client)


def read_all(client: socket.socket) -> bytes:
    """Return all bytes until the other end closes."""
    pieces = []
    while piece := client.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def read_until(client: socket.socket, end: bytes) -> bytes:
    """Return the bytes up to this end, which has to come."""
    found = b""
    while not found.endswith(end):
        piece = client.recv(65536)
        assert piece, found
        found += piece
    return found


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Start servers that end with the test."""
    with ExitStack() as clients:
        started: list[Served] = []

        def start(front: Front, most: int = 100, threads: int = 3) -> Served:
            started.append(Served(front, most, clients, threads))
            return started[-1]

        yield start
        clients.close()
        for each in started:
            each.end()
