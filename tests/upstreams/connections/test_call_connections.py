"""The connections of a mount for its calls are counted until they are closed."""

from __future__ import annotations

from typing import Any

from patchbay.client.errors import Unreachable
from patchbay.upstreams.connections.call_connections import CallConnection, CallConnections, Key
from tests.waiting import until

QUESTIONS = frozenset({"elicitation"})


class Opened:
    """A connection of which only the end matters."""

    closed = False
    end_reason = Unreachable("it ended")

    def close(self) -> None:
        self.closed = True


def open_connection(_: CallConnection) -> Any:
    return Opened()


def test_an_ended_connection_beside_a_usable_one_is_not_counted_for_ever() -> None:
    """The limit of a mount would be used up by connections that have ended."""
    connections = CallConnections(open_connection, limit=2, idle_seconds=600)
    key = Key("one", questions=QUESTIONS)
    reserved = [connections.acquire(key, QUESTIONS) for _ in range(2)]
    for one in reserved:
        one.opening.result()
        until(lambda one=one: one.connection is not None, "it is open")  # type: ignore[misc]
        connections.give_back(one, clean=True)
    ended: Any = reserved[0].connection
    ended.closed = True
    usable = connections.acquire(key, QUESTIONS)
    assert usable is reserved[1]
    connections.give_back(usable, clean=True)
    connections.reap(0)
    until(lambda: connections.count == 0, "no connection is counted")
