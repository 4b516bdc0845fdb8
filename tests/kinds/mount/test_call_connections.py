"""The connections of one mount: how many places they take. Issue 32, item 6; issue 38, item 3."""

from __future__ import annotations

from typing import Any

from patchbay.client.errors import Unreachable
from patchbay.kinds.mount.call_connections import CallConnections, Key


class Ended:
    """A connection that can end."""

    closed = False
    end_reason = Unreachable("it ended")

    def close(self) -> None:
        self.closed = True


def test_a_connection_that_has_ended_keeps_no_place() -> None:
    """Two callers who can be asked have a connection each; one of these ends while the other is free."""
    opened: list[Any] = []

    def open_one(_: object) -> Any:
        opened.append(Ended())
        return opened[-1]

    connections = CallConnections(open_one, limit=2, idle_seconds=600.0)
    key, questions = Key("ada", questions=frozenset({"elicitation"})), frozenset({"elicitation"})
    first, second = (connections.acquire(key, questions) for _ in range(2))
    for reserved in (first, second):
        reserved.opening.result(10)
        connections.give_back(reserved, True)
    first.opening.result(10).close()
    assert connections.acquire(key, questions) is second
    third = connections.acquire(key, questions)
    assert third is not first
    assert third.opening.result(10) is opened[-1]
    assert not opened[-1].closed
