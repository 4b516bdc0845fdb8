"""Ways in which a program and its connection may part, each as a function that opens one and lets it go."""

from __future__ import annotations

import pytest

from patchbay.client.addresses.targets import Stdio
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import ServerTimeout, Unreachable
from tests.client.reaching import ENVIRON, opened


def closed() -> None:
    """A call, and the end."""
    with opened() as connection:
        connection.call_tool("echo")


def abandoned() -> None:
    """A call whose answer is not read to its end."""
    with opened() as connection:
        running = connection.request("tools/call", {"name": "progress", "arguments": {"times": 5}})
        next(running)
        running.close()


def vanished() -> None:
    """The program dies of a call."""
    with opened() as connection, pytest.raises(Unreachable):
        connection.call_tool("vanish")


def crashed() -> None:
    """The program dies at its start."""
    with pytest.raises(Unreachable):
        opened("crash")


def overdue() -> None:
    """A call takes too long."""
    with opened() as connection, pytest.raises(ServerTimeout):
        connection.call_tool("hang", timeout=0.01)


def missing() -> None:
    """There is no such program."""
    with pytest.raises(Unreachable):
        Connection.open(Stdio("no-such-program"), environ=ENVIRON)
