"""The descriptor of a connection by its other end: each connection is asked once, however many there are."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path

from patchbay.wire.front.connection_index import ConnectionIndex
from tests.waiting import BOUND

CONNECTIONS = 200


def test_many_connections_are_found_with_one_question_each() -> None:
    """All of them are open before the first search, so that few are near the lowest free descriptor."""
    index = ConnectionIndex()
    with ExitStack() as opened, socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS) as server:
        clients, accepted = [], {}
        for _ in range(CONNECTIONS):
            client = opened.enter_context(socket.create_connection(server.getsockname(), BOUND))
            taken = opened.enter_context(server.accept()[0])
            clients.append("{}:{}".format(*client.getsockname()))
            accepted[clients[-1]] = taken
        for name in clients:
            found = index.find(name)
            assert found is not None and os.path.sameopenfile(found[0], accepted[name].fileno())
        # Both ends of each connection are sockets of this process.
        others = len([*Path("/proc/self/fd").iterdir()])
        assert index.readings <= 2
        assert index.questions <= 2 * CONNECTIONS + others
        name = clients.pop()
        accepted[name].close()
        assert index.find(name) is None


def test_a_descriptor_that_is_used_again_is_asked_again() -> None:
    index = ConnectionIndex()
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(3):
            with socket.create_connection(server.getsockname(), BOUND) as client, server.accept()[0] as taken:
                found = index.find("{}:{}".format(*client.getsockname()))
                assert found is not None and found[0] == taken.fileno()
