"""Privacy profiles: what of a participant is logged, and what the fold refuses."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from patchbay.rooms.record.canonical import Signer
from patchbay.rooms.record.entry import make_entry
from patchbay.rooms.record.envelope import CONTENT_CID, WITHHELD, hub_envelope
from patchbay.rooms.record.errors import RoomRefused, WrongLog
from patchbay.rooms.record.verification import verify
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from tests.rooms.people import KEY, Person

Json = dict[str, Any]
AGENT = {"name": "laptop-of-bob", "version": "1"}


@pytest.mark.parametrize(
    ("profile", "name", "agent", "kept"),
    [
        ("persistent", "bob", True, "contents"),
        ("pseudonymous", "member-", True, "contents"),
        ("ephemeral", "member-", False, "cid"),
        ("ghost", "ghost-", False, "nothing"),
    ],
)
def test_the_profile_decides_what_is_logged(room: Room, profile: str, name: str, agent: bool, kept: str) -> None:
    """ENS-18: E-F12: name, agent and contents by profile; all members who are present see the contents live."""
    carol = Person(room, "carol")
    bob = Person(room, "bob", privacy={"profile": profile}, agent=AGENT)
    assert bob.member.startswith(name)
    bob.says("chat.msg", {"text": "a secret plan"})
    heard = carol.waits_for("chat.msg")
    assert heard["payload"]["text"] == "a secret plan"
    log = b"\n".join(room.lines())
    assert (b"laptop-of-bob" in log) is agent
    assert (b"a secret plan" in log) is (kept == "contents")
    (logged,) = [one.entry.envelope for one in room.entries() if one.entry.envelope["type"] == "chat.msg"]
    assert (CONTENT_CID in logged["payload"]) is (kept != "nothing")
    assert (WITHHELD in logged["payload"]) is (kept == "nothing")
    if profile != "persistent":
        assert b'"bob"' not in log
    assert verify(room.lines()).ok


@pytest.mark.parametrize("profile", ["ephemeral", "ghost"])
def test_passing_contents_are_gone_after_the_time_of_replay(
    room: Room, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENS-18: what may not be logged is kept for replay only."""
    bob = Person(room, "bob", privacy={"profile": profile})
    bob.says("chat.msg", {"text": "a secret plan"})
    (row,) = room.core.store.journal.read(f"room-content/{room.id}/{room.entries()[-1].envelope['id']}")
    assert b"secret" in row.data
    assert room.core.store.journal.sweep() == 0
    later = time.time() + room.bounds.replay + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert room.core.store.journal.sweep() >= 1
    assert room.entries()[-1].contents is None
    assert b"secret" not in b"".join(room.lines())


def test_answers_to_a_ghost_are_withheld_as_its_questions_are(room: Room) -> None:
    """ENS-18: the stricter profile of sender and caller counts for a result."""
    bob = Person(room, "bob")
    bob.announces("fs")
    ghost = Person(room, "carol", privacy={"profile": "ghost"})
    call_id = ghost.calls("fs", "read", {"path": "/secret"})
    asked = bob.waits_for("tool.call")
    assert asked["payload"]["args"] == {"path": "/secret"}
    bob.answers(call_id, "the answer")
    assert ghost.result_of(call_id)["result"] == "the answer"
    logged = [one.entry.envelope for one in room.entries() if one.entry.envelope["type"].startswith("tool.")]
    assert [WITHHELD in one["payload"] for one in logged] == [False, True, True]


def test_the_members_of_passing_sessions_are_forgotten_when_they_leave(room: Room) -> None:
    """ENS-18: the state keeps no ghost and no ephemeral member that has left."""
    for profile in ("ephemeral", "ghost"):
        bob = Person(room, "bob", privacy={"profile": profile})
        member = bob.member
        assert member in room.state()["members"]
        bob.session.leave()
        assert member not in room.state()["members"]


def test_a_room_may_refuse_profiles(rooms: Rooms) -> None:
    """ENS-18: the policy names the profiles that are accepted."""
    room = rooms.create("strict", "alice", {"policy": {"profiles": ["persistent", "pseudonymous"]}})
    with pytest.raises(RoomRefused, match="the room accepts no ghost profile"):
        Person(room, "bob", privacy={"profile": "ghost"})


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        (
            {"profile": "ghost", "member": "ghost-1", "agent": AGENT},
            "the profile ghost forbids that the agent is logged",
        ),
        (
            {"profile": "ephemeral", "member": "bob"},
            "the profile ephemeral forbids that the member's own name is logged",
        ),
        ({"profile": "ghost", "member": "member-1"}, "the profile ghost forbids that the member's own name is logged"),
    ],
)
def test_the_fold_refuses_what_a_profile_forbids(room: Room, payload: Json, sentence: str) -> None:
    """ENS-18: no hub can log it, and `verify` names the entry of one that did."""
    said = {"session": "s", "role": "human", "caps": [], **payload}
    envelope = hub_envelope("demo", "presence.join", said, 0)
    entry = make_entry(Signer(KEY), room.seq + 1, room.head, 0, envelope)
    with pytest.raises(WrongLog) as problem:
        room.core.log.fold.check(entry)
    assert problem.value.why == sentence
    verdict = verify([*room.lines(), entry.line(None)])
    assert (verdict.ok, verdict.seq, verdict.reason) == (False, room.seq + 1, sentence)


def test_the_fold_refuses_the_contents_of_a_ghost(room: Room) -> None:
    """ENS-18: not even the CID of what a ghost said may be in the log."""
    ghost = Person(room, "bob", privacy={"profile": "ghost"})
    said = {CONTENT_CID: "bafkrei", "__enso_bytes__": 1}
    envelope = {**hub_envelope("demo", "chat.msg", said, 0), "from": ghost.id}
    entry = make_entry(Signer(KEY), room.seq + 1, room.head, 0, envelope)
    with pytest.raises(WrongLog, match="the sender is a ghost"):
        room.core.log.fold.check(entry)


def test_pseudonyms_differ_between_rooms_and_stay_within_one(rooms: Rooms, room: Room) -> None:
    """ENS-18: a pseudonym identifies no one outside its room."""
    other = rooms.create("other", "alice")
    assert Person(room, "bob").member == Person(room, "bob").member == room.pseudonym("bob")
    assert Person(other, "bob").member != room.pseudonym("bob")
    assert orjson.dumps(other.state()).count(b"bob") == 0
