"""Two workers of one hub: each has its own sessions of a room, and members in one receive the messages of the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from patchbay.events import Data, Done, Pause, Progress
from patchbay.rooms import membership
from patchbay.rooms.record.errors import RoomRefused
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from patchbay.rooms.session import RoomSession
from patchbay.stores.memory import MemoryStore
from patchbay.topics import ROOM_TOOLS
from tests.rooms.people import BOUNDS, Person, envelope, hello, rooms_of, serving
from tests.waiting import BOUND, until

Json = dict[str, Any]


@pytest.fixture
def two() -> Iterator[tuple[Room, Room]]:
    """One room, as two workers hold it."""
    store = MemoryStore()
    with rooms_of(store) as first, rooms_of(store) as second:
        yield first.create("demo", "alice"), second.open("demo")


def test_a_call_reaches_an_owner_in_another_worker_and_its_answer_comes_back(two: tuple[Room, Room]) -> None:
    """ENS-C6: `tool.call` reaches the session of the owner, wherever it is connected."""
    here, there = two
    carol, bob = Person(here, "carol", caps=["tool.call", "stream"]), Person(there, "bob")
    bob.announces("fs")
    carol.waits_for("tool.advertise")
    call_id = carol.calls("fs", "read", {"path": "/a"})
    assert bob.waits_for("tool.call")["payload"]["args"] == {"path": "/a"}
    bob.says("tool.partial", {"callId": call_id, "partial": "half of it"})
    bob.answers(call_id, "all of it")
    assert carol.result_of(call_id)["result"] == "all of it"
    kinds = [one.envelope["type"] for one in carol.heard if one.envelope["payload"].get("callId") == call_id]
    assert kinds == ["tool.call", "tool.partial", "tool.result"]
    assert [one.envelope["payload"]["data"] for one in carol.heard if one.is_stream] == ["half of it", ""]


def test_an_mcp_client_calls_through_another_worker(two: tuple[Room, Room]) -> None:
    """ENS-8: the tools of a room are those of all its workers."""
    here, there = two
    bob = Person(there, "bob")
    bob.announces("fs")
    until(lambda: here.tools(), "the tools here")

    def answer(payload: Json) -> Json:
        bob.says("tool.partial", {"callId": payload["callId"], "partial": {"progress": 1}})
        return {"result": {"answer": 42}}

    with serving(bob, answer):
        events = [one for one in here.call("fs", "read", {}, "zoe", 60) if not isinstance(one, Pause)]
    assert events == [Progress(1.0, None, None), Data({"answer": 42}), Done()]


def test_a_change_of_tools_is_published_to_every_worker(two: tuple[Room, Room]) -> None:
    """ENS-6: the topic of the bus that says that a room's tools may have changed."""
    here, there = two
    with here.core.store.bus.subscribe([ROOM_TOOLS + here.id]) as mailbox:
        Person(there, "bob").announces("fs")
        assert mailbox.get(60) is not None


def test_a_session_without_a_connection_is_resumed_in_another_worker(two: tuple[Room, Room]) -> None:
    """ENS-18: `POST` may reach any worker; refusals reach the stream of the same session elsewhere."""
    here, there = two
    bob = Person(here, "bob")
    posted = there.resume("bob", bob.id)
    refused = posted.receive(envelope("chat.msg", {"text": "hi"}, **{"from": "somebody"}))
    assert refused.refusal.startswith("the envelope is from 'somebody'")
    assert bob.waits_for("room.refused")["payload"]["error"] == refused.refusal
    assert posted.receive(envelope("chat.msg", {"text": "hi"})).seq is not None
    assert bob.waits_for("chat.msg")
    with pytest.raises(RoomRefused, match="the session is of another caller"):
        there.resume("mallory", bob.id)


def test_a_session_has_one_connection_over_all_workers(two: tuple[Room, Room]) -> None:
    """ENS-9: the newest connection reads it; the earlier one ends, whichever worker has it."""
    here, there = two
    session = here.join("bob", hello())
    ended: list[str] = []
    session.attach(lambda: ended.append("first"))
    second = there.resume("bob", session.id)
    second.attach(lambda: ended.append("second"))
    until(lambda: ended == ["first"], "the end of the first connection")
    assert (session.is_attached, second.is_attached) == (False, True)
    here.resume("bob", session.id).attach(lambda: ended.append("third"))
    until(lambda: ended == ["first", "second"], "the end of the second connection")
    assert (session.is_attached, second.is_attached) == (True, False)


def test_a_worker_whose_rooms_are_starting_learns_of_a_connection_elsewhere(monkeypatch: Any) -> None:
    """ENS-9: messages that come before its thread runs are not lost."""
    started, store = threading.Event(), MemoryStore()
    monkeypatch.setattr(Rooms, "_open_offering", lambda self: started.wait(BOUND))
    with rooms_of(store) as first, rooms_of(store) as second:
        session = first.create("demo", "alice").join("bob", hello())
        ended: list[str] = []
        session.attach(lambda: ended.append("first"))
        second.open("demo").resume("bob", session.id).attach(lambda: ended.append("second"))
        started.set()
        until(lambda: ended == ["first"], "the end of the first connection")


def test_the_late_message_of_an_earlier_connection_elsewhere_ends_no_newer_one(two: tuple[Room, Room]) -> None:
    """ENS-9: messages of the bus do not arrive in the order of the connections."""
    here, _ = two
    session = here.join("bob", hello())
    order_token = here.core.store.order_token
    earlier = order_token()
    ended: list[str] = []
    session.attach(lambda: ended.append("newest"))
    here.note_reader(earlier + session.id.encode())
    assert (ended, session.is_attached) == ([], True)
    here.note_reader(order_token() + session.id.encode())
    assert (ended, session.is_attached) == (["newest"], False)


def test_the_message_of_an_earlier_connection_during_a_new_one_does_not_end_it(
    two: tuple[Room, Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENS-9: another thread receives the message while the new connection gets its order token."""
    here, _ = two
    session = here.join("bob", hello())
    order_token = here.core.store.order_token
    earlier, ended = order_token(), list[str]()

    def order_token_late() -> bytes:
        here.note_reader(earlier + session.id.encode())
        return order_token()

    monkeypatch.setattr(here.core.store, "order_token", order_token_late)
    session.attach(lambda: ended.append("new"))
    assert (ended, session.is_attached) == ([], True)


def test_two_requests_that_resume_a_session_at_once_get_one_session(
    two: tuple[Room, Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENS-9: a post and an event stream arrive together at a worker that has not seen the session yet."""
    here, there = two
    bob, others = here.join("bob", hello()), list[RoomSession]()

    class Resumed(RoomSession):
        def __init__(self, *values: Any) -> None:
            monkeypatch.setattr(membership, "RoomSession", RoomSession)
            others.append(there.resume("bob", bob.id))
            super().__init__(*values)

    monkeypatch.setattr(membership, "RoomSession", Resumed)
    assert there.resume("bob", bob.id) is others[0]
    bob.leave()
    until(lambda: others[0].is_closed, "the end of the session there")


def test_a_session_that_ends_while_it_is_resumed_is_closed(
    two: tuple[Room, Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENS-18: no connection reads a session that has left."""
    here, there = two
    bob = here.join("bob", hello())

    class Resumed(RoomSession):
        def __init__(self, *values: Any) -> None:
            bob.leave()
            until(lambda: bob.id not in there.state()["sessions"], "the end of the session there")
            super().__init__(*values)

    monkeypatch.setattr(membership, "RoomSession", Resumed)
    assert there.resume("bob", bob.id).is_closed


def test_a_ghost_is_not_resumed_elsewhere(two: tuple[Room, Room]) -> None:
    """ENS-18: nothing in the log says whose session a ghost's is."""
    here, there = two
    ghost = Person(here, "bob", privacy={"profile": "ghost"})
    until(lambda: ghost.id in there.state()["sessions"], "the join there")
    with pytest.raises(RoomRefused, match="or of a ghost, which cannot be resumed"):
        there.resume("bob", ghost.id)


def test_a_call_that_its_worker_left_open_is_ended_by_another(two: tuple[Room, Room], monkeypatch: Any) -> None:
    """ENS-17: the deadline counts, even when the process that took the call is gone."""
    here, there = two
    bob, carol = Person(there, "bob"), Person(here, "carol")
    bob.announces("fs")
    carol.waits_for("tool.advertise")
    monkeypatch.setattr(here._calls, "expire", lambda now: None)
    call_id = carol.calls("fs", "read", ttlMs=1)
    assert carol.result_of(call_id)["error"] == "timeout: the call took longer than its ttlMs"


def test_the_sessions_of_a_worker_that_died_are_ended_by_another() -> None:
    """ENS-C5: a lost owner's servers go, and calls of it end with a sentence."""
    store = MemoryStore()
    bounds = replace(BOUNDS, idle=1.0)
    with rooms_of(store, bounds) as first, rooms_of(store, bounds) as second:
        here, there = first.create("demo", "alice"), second.open("demo")
        bob, carol = Person(there, "bob"), Person(here, "carol")
        bob.announces("fs")
        carol.waits_for("tool.advertise")
        call_id = carol.calls("fs", "read")
        # The worker of bob dies: it neither says anything any more nor listens.
        second._loop.close(BOUND)
        there._members.sessions.clear()
        assert carol.result_of(call_id)["error"] == "the owner of the server has left the room"
        gone = carol.waits_for("presence.part")["payload"]
        assert gone == {"session": bob.id, "reason": "the connection was lost", "servers": ["fs"]}
        assert carol.id in here.state()["sessions"], "whose worker lives stays"


def test_a_session_without_a_connection_ends_when_it_is_idle() -> None:
    """ENS-18: a session of POSTs that stop is ended after `room_idle` seconds."""
    with rooms_of(bounds=replace(BOUNDS, idle=1.0)) as rooms:
        room = rooms.create("demo", "alice")
        alice = Person(room, "alice")
        bob = room.join("bob", {"proto": "ENSO-1", "caps": ["tool.call"]})
        assert alice.waits_for("presence.part")["payload"]["session"] == bob.id
        assert bob.is_closed
