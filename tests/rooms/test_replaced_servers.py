"""One server id of one member in two sessions: a call goes to the owner alone, once; the newest announcement counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.descriptors import Descriptor, Kind
from patchbay.rooms.folding.fold import fold
from patchbay.rooms.room import Room
from patchbay.rooms.servers.announcements import EVERYTHING, Offered, Outdated, advertise
from patchbay.stores.memory import MemoryStore
from tests.rooms.people import LIST, READ, Person, rooms_of
from tests.waiting import until

HOST = ["tool.host", "mcp.server:fs"]


@pytest.fixture
def two() -> Iterator[tuple[Room, Room]]:
    """One room, as two workers hold it."""
    store = MemoryStore()
    with rooms_of(store) as first, rooms_of(store) as second:
        yield first.create("demo", "alice"), second.open("demo")


def calls_read_by(person: Person) -> list[str]:
    """The ids of the calls that a session has read."""
    person.reads()
    return [one.envelope["payload"]["callId"] for one in person.heard if one.envelope["type"] == "tool.call"]


def test_a_call_reaches_only_the_session_that_owns_the_server(two: tuple[Room, Room]) -> None:
    """34.9: two announcers of one user, in two workers: a program that runs each call that it reads runs it once."""
    here, there = two
    older, caller = Person(here, "bob", caps=HOST), Person(here, "carol", caps=["tool.call"])
    older.announces("fs", READ)
    caller.waits_for("tool.advertise")
    first = caller.calls("fs", "read")
    older.waits_for("tool.call")
    newer = Person(there, "bob", caps=HOST)
    newer.announces("fs", READ)
    replaced = older.waits_for("mcp.replaced")["payload"]
    assert (replaced["serverId"], replaced["session"], replaced["by"]) == ("fs", older.id, newer.id)
    assert replaced["reason"] == "a newer session of this member shares it now"
    second = caller.calls("fs", "read")
    newer.waits_for("tool.call", lambda payload: payload["callId"] == second)
    # The older session finishes what it has begun, and nothing else.
    assert older.answers(second, "from the older one").refusal == f"the call {second} is of a server of another session"
    assert older.answers(first, "begun before").refusal == ""
    assert newer.answers(second, "from the newer one").refusal == ""
    assert caller.result_of(first)["result"] == "begun before"
    assert caller.result_of(second)["result"] == "from the newer one"
    older.result_of(second)
    newer.result_of(second)
    assert (calls_read_by(older), calls_read_by(newer)) == ([first], [second])
    assert calls_read_by(caller) == [first, second], "members read every call"


def test_a_session_that_reads_late_gets_no_call_of_another_owner(two: tuple[Room, Room]) -> None:
    """34.9: the calls of the past are no work for a session that took the server over."""
    here, _ = two
    older, caller = Person(here, "bob", caps=HOST), Person(here, "carol", caps=["tool.call"])
    older.announces("fs", READ)
    done, running = caller.calls("fs", "read"), caller.calls("fs", "read")
    older.answers(done, "done")
    newer = Person(here, "bob", after=1, caps=HOST)
    newer.announces("fs", READ)
    later = caller.calls("fs", "read")
    newer.answers(later, "later")
    newer.result_of(later)
    assert calls_read_by(newer) == [later]
    assert calls_read_by(older) == [running]


def test_the_room_says_which_servers_are_gone_with_a_session(two: tuple[Room, Room]) -> None:
    """34.9: `presence.part` names them; those that a newer session has taken over stay."""
    here, there = two
    caller = Person(here, "carol", caps=["tool.call"])
    older, newer = Person(here, "bob"), Person(there, "bob")
    older.announces("fs")
    older.announces("git")
    newer.announces("fs")
    older.session.leave("the lid was closed")
    gone = caller.waits_for("presence.part", lambda payload: payload["session"] == older.id)["payload"]
    assert gone == {"session": older.id, "reason": "the lid was closed", "servers": ["git"]}
    assert list(here.state()["servers"]) == ["fs"]
    newer.session.leave("the end")
    last = caller.waits_for("presence.part", lambda payload: payload["session"] == newer.id)["payload"]
    assert last["servers"] == ["fs"]
    assert here.state()["servers"] == {}
    caller.session.leave()
    assert "servers" not in here.entries(here.seq - 1)[0].envelope["payload"]


def test_a_session_that_was_away_does_not_take_its_server_back(two: tuple[Room, Room]) -> None:
    """34.9: an announcement that names the sessions which it replaces replaces no other."""
    here, there = two
    lost, newer, back = Person(here, "bob"), Person(there, "bob"), Person(here, "bob")
    lost.announces("fs", READ)
    assert back.announces("fs", READ, replaces=[lost.id]).refusal == ""
    assert back.announces("fs", LIST, replaces=[]).refusal == "", "a session may always announce its own server anew"
    assert newer.announces("fs", READ).refusal == "", "without `replaces` the newest announcement counts"
    refused = back.announces("fs", LIST, replaces=[lost.id, back.id])
    assert refused.refusal == "the server fs is shared by a newer session of this member"
    assert here.state()["servers"]["fs"]["owner"] == newer.id
    assert list(here.state()["servers"]["fs"]["tools"]) == ["read"]


def test_the_list_of_a_replaced_announcement_is_not_that_of_the_newer_one(two: tuple[Room, Room]) -> None:
    """34.9: the advertisement of an announcement counts only while that announcement does."""
    here, there = two
    older, newer = Person(here, "bob"), Person(there, "bob")
    seq = older.announces("fs", READ).seq
    newer.announces("fs", LIST)
    found: dict[Kind, dict[str, Descriptor]] = {"tool": {}, "resource": {}, "prompt": {}}
    assert seq is not None
    with pytest.raises(Outdated, match="the server fs was replaced or has gone"):
        advertise(here.core, Offered("fs", seq, found, EVERYTHING, []))
    until(lambda: list(here.state()["servers"]["fs"]["tools"]) == ["list"], "the tools of the newer session")


def test_a_refused_announcement_replaces_nothing(two: tuple[Room, Room]) -> None:
    """34.9: the older session keeps its server, and is told nothing."""
    here, there = two
    older, newer = Person(here, "bob"), Person(there, "bob", caps=["tool.call"])
    older.announces("fs", READ)
    assert "tool.host" in newer.announces("fs", LIST).refusal
    assert here.state()["servers"]["fs"]["owner"] == older.id
    assert "mcp.replaced" not in older.types()


def test_only_the_hub_says_that_a_server_was_replaced(two: tuple[Room, Room]) -> None:
    """34.9: no member ends the announcer of another with a word."""
    here, _ = two
    mallory = Person(here, "mallory")
    payload = {"serverId": "fs", "session": mallory.id}
    assert mallory.says("mcp.replaced", payload).refusal == "only the hub sends mcp.replaced"


def test_the_log_with_replaced_servers_is_folded_again_to_the_same_state(two: tuple[Room, Room]) -> None:
    """34.9: ownership follows from the log alone."""
    here, there = two
    for room in (here, there):
        Person(room, "bob").announces("fs")
    state = here.state()
    assert fold(one.entry for one in here.entries(0, 1000)).state() == state
