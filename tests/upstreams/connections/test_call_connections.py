"""The connections of a mount for its calls are counted until they are closed."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.caller_accounts.credentials import CallerCredential
from patchbay.client.errors import Unreachable
from patchbay.errors import ToolFailed
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


def test_a_replaced_connection_that_ends_its_call_leaves_its_place_to_one_other() -> None:
    """After a change of a secret, the next call was refused at the limit."""
    connections = CallConnections(open_connection, limit=1, idle_seconds=600)
    key = Key("one", "session")
    first = connections.acquire(key, QUESTIONS)
    connections.renew("a secret has changed")
    second = connections.acquire(key, QUESTIONS)
    assert second is not first
    with pytest.raises(ToolFailed, match="session_limit"):
        connections.acquire(Key("two", "other"), QUESTIONS)
    connections.renew("a secret has changed again")
    with pytest.raises(ToolFailed, match="session_limit"):
        connections.acquire(key, QUESTIONS)
    assert connections.has_replaced
    connections.give_back(first, clean=True)
    until(lambda: connections.count == 1, "the first one is closed")
    third = connections.acquire(key, QUESTIONS)
    for one in (second, third):
        connections.give_back(one, clean=True)
    connections.reap(0)
    until(lambda: connections.count == 0, "no connection is counted")
    assert not connections.has_replaced


def test_one_caller_with_a_credential_of_its_own_has_at_most_half_of_the_places() -> None:
    """One person with many sessions would leave no process to the others."""
    connections = CallConnections(open_connection, limit=4, idle_seconds=600)
    own = [connections.acquire(Key("ann", str(number), "a"), QUESTIONS) for number in range(2)]
    with pytest.raises(ToolFailed, match="your own calls use 2 of the 4 places"):
        connections.acquire(Key("ann", "third", "a"), QUESTIONS)
    others = [connections.acquire(Key("ben", str(number), "b"), QUESTIONS) for number in range(2)]
    assert len(others) == 2
    own[0].opening.result()
    until(lambda: own[0].connection is not None, "it is open")
    connections.give_back(own[0], clean=True)
    connections.acquire(Key("ann", "third", "a"), QUESTIONS)
    until(lambda: bool(own[0].connection is not None and own[0].connection.closed), "the idle one made room")


def test_connections_of_an_ended_credential_are_closed_at_once_also_during_a_call() -> None:
    connections = CallConnections(open_connection, limit=4, idle_seconds=600)
    running = connections.acquire(Key("ann", "one", "a"), QUESTIONS)
    other = connections.acquire(Key("ben", "two", "b"), QUESTIONS)
    shared = connections.acquire(Key("ann", "three"), QUESTIONS)
    for one in (running, other, shared):
        one.opening.result()
    until(lambda: all(one.connection is not None for one in (running, other, shared)), "they are open")
    connections.end_credentials(lambda key: key.sign_in != "a", "because the account was disconnected")
    until(lambda: bool(running.connection is not None and running.connection.closed), "it is closed")
    assert other.connection is not None
    assert shared.connection is not None
    assert not other.connection.closed
    assert not shared.connection.closed
    connections.give_back(running, clean=False)
    assert connections.acquire(Key("ann", "one", "a"), QUESTIONS) is not running


def test_connections_of_callers_that_may_not_go_on_close_after_their_calls() -> None:
    """An idle one stayed open until `session_idle`, with the headers of a caller that the hub had removed."""
    connections = CallConnections(open_connection, limit=8, idle_seconds=600)
    allowed = {"ann": True, "ben": True}

    def use(name: str, sign_in: str) -> CallConnection:
        found = connections.acquire(Key(name, "", sign_in), frozenset(), may_continue=lambda: allowed[name])
        found.opening.result()
        until(lambda: found.connection is not None, "it is open")
        return found

    idle, running, other = use("ann", "1"), use("ann", "2"), use("ben", "1")
    connections.give_back(idle, clean=True)
    connections.give_back(other, clean=True)
    allowed["ann"] = False
    connections.end_callers("because its caller may no longer use this server")
    until(lambda: connections.count == 2, "the idle connection of ann is closed")
    assert running.connection is not None and not running.connection.closed
    connections.give_back(running, clean=True)
    until(lambda: connections.count == 1, "the other one is closed after its call")
    allowed["ann"] = True
    again = use("ann", "1")
    assert connections.take_end_reason(again) == "because its caller may no longer use this server"
    assert use("ben", "1") is other


def renewed(id: str, principal: str = "ann") -> CallerCredential:
    """A credential that the next one of the same session replaces, as a token of an authorization server."""
    return CallerCredential(principal, id, is_renewed=True)


def test_a_new_token_of_a_session_ends_the_connection_of_the_earlier_one_and_its_client_is_told() -> None:
    """The state at the server was lost without a word, and the earlier connection held a place until it was idle."""
    connections = CallConnections(open_connection, limit=8, idle_seconds=600)
    other = connections.acquire(Key("ann", "other", "1"), QUESTIONS, credential=renewed("1"))
    first = connections.acquire(Key("ann", "session", "1"), QUESTIONS, credential=renewed("1"))
    running = connections.acquire(Key("ann", "session", "1"), QUESTIONS, credential=renewed("1"))
    assert first is running and not connections.take_end_reason(first)
    connections.give_back(first, clean=True)
    second = connections.acquire(Key("ann", "session", "2"), QUESTIONS, credential=renewed("2"))
    assert connections.take_end_reason(second) == "because your client sent another access token"
    assert first.is_ending and not other.is_ending
    connections.give_back(running, clean=True)
    until(lambda: connections.count == 2, "the earlier connection is closed after its last call")
    third = connections.acquire(Key("ann", "session", "3"), QUESTIONS, credential=renewed("3"))
    assert connections.take_end_reason(third) and not connections.take_end_reason(third)


def test_connections_of_a_session_with_credentials_that_last_stay_beside_each_other() -> None:
    connections = CallConnections(open_connection, limit=8, idle_seconds=600)
    lasting = [CallerCredential("ann", id) for id in ("red", "blue")]
    found = [connections.acquire(Key("ann", "session", one.id), QUESTIONS, credential=one) for one in lasting]
    assert not any(one.is_ending or connections.take_end_reason(one) for one in found)
