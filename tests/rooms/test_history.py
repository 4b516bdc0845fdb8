"""The past of a room: who may see it, redactions, forks, what the exported log shows."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from patchbay.rooms.record.errors import BadFrame, RoomExists, RoomRefused, UnknownRoom
from patchbay.rooms.record.verification import verify
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from tests.rooms.people import Person

Json = dict[str, Any]


def read_texts(person: Person) -> list[str]:
    """The texts that a person has read, and the marks of what is withheld."""
    person.reads()
    texts = []
    for one in person.heard:
        payload = one.envelope["payload"]
        if one.envelope["type"] == "chat.msg":
            texts.append(payload.get("text", "(gone)"))
        elif one.envelope["type"] == "room.withheld":
            texts.append(f"withheld {payload['from']}-{payload['to']}")
    return texts


@pytest.mark.parametrize(
    ("history", "expected"),
    [("all", ["one", "two"]), ("invited", ["withheld 1-3", "two"]), ("joined", ["withheld 1-5"])],
)
def test_history_is_shown_as_the_policy_says(rooms: Rooms, history: str, expected: list[str]) -> None:
    """ENS-16: one trail, and backfill by `after` with a mark where something is withheld."""
    room = rooms.create("past", "alice", {"policy": {"history": history}})
    alice = Person(room, "alice")
    alice.says("chat.msg", {"text": "one"})
    alice.says("room.member", {"principal": "bob", "membership": "invited"})
    alice.says("chat.msg", {"text": "two"})
    bob = Person(room, "bob", after=0)
    assert read_texts(bob) == expected
    verdict = verify(room.lines(principal="bob"))
    assert verdict.ok, verdict
    assert verdict.withheld == {"all": 0, "invited": 2, "joined": 4}[history]
    assert bool(verdict.state_cid) is (history == "all")
    assert verdict.head == room.head
    assert b"one" in b"".join(room.lines())


def test_a_reader_that_comes_back_reads_what_it_missed(room: Room) -> None:
    """ENS-16: the cursor is the seq."""
    alice, bob = Person(room, "alice"), Person(room, "bob")
    alice.says("chat.msg", {"text": "one"})
    bob.reads()
    last = bob.heard[-1].seq
    bob.session.leave()
    alice.says("chat.msg", {"text": "two"})
    again = Person(room, "bob", after=last)
    assert read_texts(again) == ["two"]


def test_a_reader_that_falls_behind_what_is_in_memory_reads_the_log(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENS-16: every member has all entries in order, however slow it is."""
    monkeypatch.setattr("patchbay.rooms.feed.MAX_DELIVERIES", 8)
    alice, bob = Person(room, "alice"), Person(room, "bob")
    expected = [str(number) for number in range(100)]
    for text in expected:
        alice.says("chat.msg", {"text": text})
    assert read_texts(bob) == expected
    assert read_texts(alice) == expected
    alice.says("chat.msg", {"text": "more"})
    assert read_texts(bob) == [*expected, "more"]


def test_a_redaction_takes_the_content_away_and_the_chain_holds(room: Room) -> None:
    """ENS-16: contents stand beside the chain; the log verifies without them."""
    alice, bob, carol = Person(room, "alice"), Person(room, "bob"), Person(room, "carol")
    seq = bob.says("chat.msg", {"text": "a secret"}).seq or 0
    other = carol.says("chat.msg", {"text": "hello"}).seq or 0
    before = room.state_cid
    assert carol.says("room.redact", {"seq": seq}).refusal == "the role human has no power to redact in this room"
    assert bob.says("room.redact", {"seq": seq, "reason": "a slip"}).refusal == ""
    assert alice.says("room.redact", {"seq": other}).refusal == ""
    log = b"".join(room.lines())
    assert b"a secret" not in log
    assert b"hello" not in log
    assert verify(room.lines()).ok
    assert room.state_cid != before
    assert room.state()["redacted"] == {str(seq): seq + 2, str(other): seq + 3}
    assert read_texts(Person(room, "bob", after=0))[-2:] == ["(gone)", "(gone)"]
    assert read_texts(alice) == ["(gone)", "(gone)"]
    assert (
        bob.says("room.redact", {"seq": seq}).refusal
        == f"the entry {seq} has no contents beside the chain; what the chain itself says stays"
    )
    assert bob.says("room.redact", {"seq": 10**6}).refusal.startswith(
        "the seq is 1000000; expected the seq of an earlier"
    )


def test_a_fork_goes_on_from_an_entry_under_a_first_entry_that_names_it(rooms: Rooms, room: Room) -> None:
    """ENS-16: a forkable trail: predecessor, seq and head; policy, flags and members are taken over."""
    alice, bob = Person(room, "alice"), Person(room, "bob")
    alice.says("room.flags", {"flags": {"topic": "plans"}})
    at, head = room.seq, room.head
    alice.says("room.flags", {"flags": {"topic": "other plans"}})
    fork = rooms.fork(room, at, "bob", "demo-2")
    assert fork.state()["predecessor"] == {"room": room.id, "seq": at, "head": head}
    assert fork.state()["flags"] == {"topic": "plans"}
    assert fork.state()["sessions"] == {}
    assert fork.state()["members"][room.pseudonym("alice")]["role"] == "owner"
    assert Person(fork, "bob").member == bob.member
    assert fork.state()["members"][bob.member]["role"] == "owner"
    assert verify(fork.lines()).ok
    assert fork.id != room.id
    with pytest.raises(RoomExists, match="a room is called demo-2 already"):
        rooms.fork(room, at, "bob", "demo-2")
    with pytest.raises(BadFrame, match="has no entry 999"):
        rooms.fork(room, 999, "bob", "demo-3")
    with pytest.raises(RoomRefused, match="only a member with the power to fork"):
        rooms.fork(room, at, "zoe", "demo-3")


def test_rooms_are_found_by_name_and_by_id_and_the_lobby_is_there_when_asked_for(rooms: Rooms, room: Room) -> None:
    """ENS-18: a client that names no room is in the lobby."""
    assert rooms.open("demo") is rooms.open(room.id) is room
    assert rooms.open_to_join("lobby", "zoe").name == "lobby"
    assert [one.name for one in rooms.all()] == ["demo", "lobby"]
    with pytest.raises(UnknownRoom, match="there is no room 'none'"):
        rooms.open("none")
    with pytest.raises(RoomExists):
        rooms.create("demo", "bob")
    with pytest.raises(BadFrame, match="the room's name is 'a/b'"):
        rooms.create("a/b", "bob")
    with pytest.raises(RoomRefused, match="the policy's join is wrong"):
        rooms.create("odd", "bob", {"policy": {"join": "sometimes"}})


def test_an_invited_room_admits_who_is_invited(rooms: Rooms) -> None:
    """ENS-14: membership is state; a ban ends the sessions of its member."""
    room = rooms.create("club", "alice", {"policy": {"join": "invite"}})
    alice = Person(room, "alice")
    with pytest.raises(RoomRefused, match="the room is for invited members"):
        Person(room, "bob")
    alice.says("room.member", {"principal": "bob", "membership": "invited"})
    bob = Person(room, "bob", privacy={"profile": "persistent"})
    assert bob.member == room.pseudonym("bob"), "a room that knows a pseudonym logs no more than that"
    alice.says("room.member", {"principal": "bob", "membership": "banned"})
    assert bob.session.is_closed
    with pytest.raises(RoomRefused, match="the room has banned this member"):
        Person(room, "bob")
    with pytest.raises(RoomRefused, match=r"the room has banned this member"):
        Person(room, "bob", privacy={"profile": "ghost"})


def test_who_is_banned_or_not_invited_sees_nothing_of_the_log(rooms: Rooms) -> None:
    """ENS-14: `all` is for those who may be in the room."""
    room = rooms.create("club", "alice", {"policy": {"join": "invite", "history": "all"}})
    alice = Person(room, "alice")
    alice.says("room.member", {"principal": "bob", "membership": "invited"})
    Person(room, "bob").says("chat.msg", {"text": "inside"})

    def count_lines(principal: str) -> int:
        return len([line for line in room.lines(principal=principal) if line.startswith((b'{"content', b'{"entry'))])

    assert count_lines("bob") == room.seq
    assert count_lines("zoe") == 1, "the first entry alone, which says how to check the others"
    alice.says("room.member", {"principal": "bob", "membership": "banned"})
    assert count_lines("bob") == 1
    assert count_lines("alice") == room.seq


def test_signs_of_life_and_states_are_live_only(room: Room) -> None:
    """ENS-18: presence heartbeats are passed on and never logged."""
    alice, bob = Person(room, "alice"), Person(room, "bob")
    before = room.seq
    bob.says("presence.heartbeat", {"session": bob.id})
    bob.says("state.patch", {"voice": {"s1": "degraded"}})
    assert alice.types()[-2:] == ["presence.heartbeat", "state.patch"]
    assert room.seq == before


def test_the_exported_log_is_canonical_json_line_by_line(room: Room) -> None:
    """ENS-16: NDJSON of entries and contents."""
    Person(room, "bob").says("chat.msg", {"text": "hi"})
    lines = list(room.lines())
    assert [orjson.loads(line)["entry"]["seq"] for line in lines] == list(range(1, room.seq + 1))
    assert orjson.loads(lines[-1])["content"] == {"text": "hi"}
    assert list(room.lines(after=room.seq - 1)) == lines[-1:]
