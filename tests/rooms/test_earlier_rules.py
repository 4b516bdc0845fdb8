"""Rooms that an earlier version made: their logs are read by the rules of then, and their policies become no wider."""

from __future__ import annotations

import time
from typing import Any

import pytest

from patchbay.rooms.folding.acl import RULES, Participant, admits, with_exact_names
from patchbay.rooms.folding.fold import Fold, fold
from patchbay.rooms.folding.state import DEFAULT_POLICY
from patchbay.rooms.record.entry import Entry, make_entry
from patchbay.rooms.record.envelope import hub_envelope
from patchbay.rooms.record.errors import WrongLog
from patchbay.rooms.record.verification import verify
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from patchbay.topics import ROOM_LOGS, ROOMS
from tests.rooms.independent_fold import fold_lines
from tests.rooms.people import READ, Person
from tests.rooms.test_access_list import WIPE, sets_acl

Json = dict[str, Any]


def old_room(rooms: Rooms, acl: list[Json]) -> Room:
    """A room as the version before the present rules made it."""
    signer, now = rooms.signer, int(time.time() * 1000)
    owner = signer.pseudonym("salt", "alice")
    payload: Json = {
        "name": "old",
        "key": signer.public,
        "predecessor": None,
        "creator": owner,
        "salt": "salt",
        "flags": {},
    }
    payload |= {"policy": {**DEFAULT_POLICY, "acl": acl}}
    payload |= {"members": {owner: {"membership": "joined", "role": "owner", "powers": []}}}
    entry = make_entry(signer, 1, None, now, hub_envelope("old", "room.create", payload, now))
    id = rooms.store.blobs.put(entry.data)
    rooms.store.journal.append_all([(f"{ROOM_LOGS}{id}", entry.data, None)], {})
    rooms.store.names.move({f"{ROOMS}old": id}, "test", "a room of an earlier version")
    return rooms.open("old")


def test_a_stored_policy_becomes_no_wider(rooms: Rooms) -> None:
    """34.11: names that were exact stay so, and the log says which; set anew they are patterns."""
    room = old_room(rooms, [{"roles": ["*", "owner"], "tools": ["read"]}, {"members": ["member-?"]}])
    alice, carol = Person(room, "alice"), Person(room, "carol")
    assert room.state()["rules"] == RULES
    assert room.state()["policy"]["acl"] == [
        {"roles": ["[*]", "owner"], "tools": ["read"]},
        {"members": ["member-[?]"]},
    ]
    [told] = [one.envelope["payload"] for one in room.entries() if one.envelope["type"] == "room.rules"]
    assert told == {"rules": RULES, "exact": ["acl[0].roles", "acl[1].members"]}
    alice.announces("fs", READ)
    assert "no rule that admits the role human" in carol.result_of(carol.calls("fs", "read"))["error"]
    sets_acl(alice, {"roles": ["*"]})
    assert carol.calls("fs", "read") in room.state()["calls"]
    lines = list(room.lines())
    assert verify(lines).state_cid == room.state_cid == fold_lines(lines)["state"]


def test_a_log_of_earlier_rules_is_read_by_them(rooms: Rooms) -> None:
    """34.10, 34.11: what was allowed then stays in the log, and the room opens; from now on it is refused."""
    room = old_room(rooms, [{"servers": ["fs"], "tools": ["read"]}])
    log = room.core.log
    now = int(time.time() * 1000)
    member = room.pseudonym("alice")
    joined = {
        "session": "s",
        "member": member,
        "role": "owner",
        "profile": "pseudonymous",
        "caps": ["tool.call", "tool.host", "mcp.server:fs"],
    }
    said: list[tuple[str, str, Json]] = [
        ("hub", "presence.join", joined),
        ("s", "mcp.announce", {"serverId": "fs", "tools": [READ, WIPE], "resources": []}),
        (
            "hub",
            "tool.advertise",
            {"serverId": "fs", "digests": {"read": "d", "wipe": "d"}, "uris": [], "tools": [READ, WIPE]},
        ),
        ("s", "tool.call", {"callId": "then", "serverId": "fs", "name": "wipe", "args": {}, "provider": "mcp"}),
        ("s", "room.rules", {"text": "a word of a member"}),
    ]
    for sender, kind, payload in said:
        envelope = {**hub_envelope("old", kind, payload, now), "from": sender}
        log.append(lambda fold, at, envelope=envelope: envelope)  # type: ignore[misc]
    assert "rules" not in room.state() and "then" in room.state()["calls"]
    before = fold_lines(list(room.lines()))["state"]
    assert before == room.state_cid
    carol = Person(room, "carol")
    assert room.state()["rules"] == RULES and room.state()["calls"]["then"]["name"] == "wipe"
    assert carol.result_of(carol.calls("fs", "wipe"))["error"].startswith("unknown tool: wipe")
    lines = list(room.lines())
    assert verify(lines).ok and fold_lines(lines)["state"] == room.state_cid


def test_a_fork_before_the_present_rules_becomes_no_wider(rooms: Rooms) -> None:
    """34.11: the policy that a fork takes over means what it meant."""
    room = old_room(rooms, [{"roles": ["*"]}])
    Person(room, "alice")
    made = rooms.fork(room, 1, "alice", "forked")
    assert (made.state()["policy"]["acl"], made.state()["rules"]) == ([{"roles": ["[*]"]}], RULES)


@pytest.mark.parametrize("rules", [1, RULES + 1, "2", True, None])
def test_rules_that_are_not_known_end_the_reading(rooms: Rooms, rules: Any) -> None:
    """34.11: a log of a later version is not folded by the rules of this one."""
    room = rooms.create("demo", "alice")
    entries = [one.entry for one in room.entries()]
    payload = {**entries[0].envelope["payload"], "rules": rules}
    entry = Entry(1, None, 0, {**entries[0].envelope, "payload": payload}, "")
    with pytest.raises(WrongLog, match="this version of Patchbay knows those up to 2"):
        Fold().apply(entry)
    assert fold(entries).state() == room.state()


def test_only_the_hub_renews_the_rules(room: Room) -> None:
    """34.11: no member changes how the room is folded."""
    mallory = Person(room, "mallory")
    assert mallory.says("room.rules", {"rules": RULES}).refusal == "only the hub sends room.rules"


def test_exact_names_keep_their_meaning() -> None:
    """34.11: every special character is escaped, in the fields that had none before."""
    rules: list[Json] = [{"roles": ["a*b?[c]"], "members": ["x"], "tools": ["*"]}, {}]
    made, places = with_exact_names(rules)
    assert made == [{"roles": ["a[*]b[?][[]c]"], "members": ["x"], "tools": ["*"]}, {}]
    assert places == ["acl[0].roles"]
    state = {"policy": {"acl": made}, "rules": RULES}
    assert admits(state, "fs", Participant("a*b?[c]", "y")) and not admits(
        {"policy": {"acl": made[:1]}, "rules": RULES}, "fs", Participant("aXbY[c]", "y")
    )
