"""The access list of a room: one table for its language, and the same decision at every list, read and call."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.pins.offers import load_offer
from patchbay.rooms.folding.acl import RULES, Listed, Participant, admits, resource_names, shows
from patchbay.rooms.record.errors import RoomRefused
from patchbay.rooms.record.verification import verify
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from patchbay.rooms.servers.room_servers import RoomServers
from patchbay.stores.memory import MemoryStore
from tests.rooms.people import NOTES, READ, Person, rooms_of

Json = dict[str, Any]
WIPE: Json = {"name": "wipe", "inputSchema": {"type": "object"}}
SCOLD: Json = {"name": "scold"}
HUMAN, AGENT = Participant("human", "member-bob"), Participant("agent", "member-robot")

LANGUAGE: list[tuple[str, list[Json], Participant, str, Listed, list[str], bool, bool]] = [
    # why, the list, who, server, kind, names of the entry, is admitted to the server, sees the entry
    ("no rules limit nothing", [], HUMAN, "fs", "tools", ["read"], True, True),
    ("a rule without fields admits all to all", [{}], HUMAN, "fs", "tools", ["read"], True, True),
    ("a star of roles is everybody", [{"roles": ["*"]}], HUMAN, "fs", "tools", ["read"], True, True),
    ("a star of members is everybody", [{"members": ["*"]}], AGENT, "fs", "tools", ["read"], True, True),
    ("a role by its name", [{"roles": ["human"]}], HUMAN, "fs", "tools", ["read"], True, True),
    ("another role", [{"roles": ["human"]}], AGENT, "fs", "tools", ["read"], False, False),
    ("a role by a pattern", [{"roles": ["hu*"]}], HUMAN, "fs", "tools", ["read"], True, True),
    ("a role by a set", [{"roles": ["[ah]*"]}], AGENT, "fs", "tools", ["read"], True, True),
    ("one character", [{"roles": ["huma?"]}], HUMAN, "fs", "tools", ["read"], True, True),
    ("upper case is other text", [{"roles": ["Human"]}], HUMAN, "fs", "tools", ["read"], False, False),
    ("a star that is meant", [{"roles": ["[*]"]}], HUMAN, "fs", "tools", ["read"], False, False),
    ("a member by its name", [{"members": ["member-bob"]}], HUMAN, "fs", "tools", ["read"], True, True),
    ("a member by a pattern", [{"members": ["member-*"]}], AGENT, "fs", "tools", ["read"], True, True),
    ("role or member", [{"roles": ["owner"], "members": ["*-bob"]}], HUMAN, "fs", "tools", ["read"], True, True),
    ("neither role nor member", [{"roles": ["owner"], "members": ["x"]}], HUMAN, "fs", "tools", ["read"], False, False),
    ("no roles are no one", [{"roles": []}], HUMAN, "fs", "tools", ["read"], False, False),
    ("a server by its name", [{"servers": ["fs"]}], HUMAN, "fs", "tools", ["read"], True, True),
    ("another server", [{"servers": ["git*"]}], HUMAN, "fs", "tools", ["read"], False, False),
    ("a tool that is listed", [{"tools": ["re*"]}], HUMAN, "fs", "tools", ["read"], True, True),
    ("a tool that is not", [{"tools": ["re*"]}], HUMAN, "fs", "tools", ["wipe"], True, False),
    ("no tools", [{"tools": []}], HUMAN, "fs", "tools", ["read"], True, False),
    ("tools say nothing of resources", [{"tools": []}], HUMAN, "fs", "resources", ["a://b"], True, True),
    ("resources say nothing of tools", [{"resources": []}], HUMAN, "fs", "tools", ["read"], True, True),
    ("a URI", [{"resources": ["git://repo/*"]}], HUMAN, "fs", "resources", resource_names("git://repo/a"), True, True),
    ("without scheme", [{"resources": ["repo/*"]}], HUMAN, "fs", "resources", resource_names("git:repo/a"), True, True),
    ("by name", [{"resources": ["plan"]}], HUMAN, "fs", "resources", resource_names("a://b", "plan"), True, True),
    ("other", [{"resources": ["repo/*"]}], HUMAN, "fs", "resources", resource_names("git://x/a", "b"), True, False),
    (
        "rules that admit add up",
        [{"tools": ["read"]}, {"roles": ["human"], "tools": ["wipe"]}],
        *(HUMAN, "fs", "tools", ["wipe"], True, True),
    ),
    (
        "a rule for others adds nothing",
        [{"tools": ["read"]}, {"roles": ["owner"], "tools": ["wipe"]}],
        *(HUMAN, "fs", "tools", ["wipe"], True, False),
    ),
    (
        "one rule for agents, one for owners: the tool of owners",
        [{"roles": ["agent"], "tools": ["read"]}, {"roles": ["owner"], "tools": ["wipe"]}],
        *(AGENT, "fs", "tools", ["wipe"], True, False),
    ),
    (
        "one rule for agents, one for owners: the tool of agents",
        [{"roles": ["agent"], "tools": ["read"]}, {"roles": ["owner"], "tools": ["wipe"]}],
        *(AGENT, "fs", "tools", ["read"], True, True),
    ),
    (
        "rules of other servers add nothing",
        [{"servers": ["fs"], "tools": ["read"]}, {"servers": ["git"], "tools": ["*"]}],
        *(HUMAN, "fs", "tools", ["wipe"], True, False),
    ),
]


@pytest.mark.parametrize(
    ("acl", "who", "server", "listed", "names", "is_admitted", "is_shown"),
    [row[1:] for row in LANGUAGE],
    ids=[row[0] for row in LANGUAGE],
)
def test_the_language_of_the_access_list(
    acl: list[Json], who: Participant, server: str, listed: Listed, names: list[str], is_admitted: bool, is_shown: bool
) -> None:
    """34.11, ENS-C4: patterns in every field, and rules that are bound to whom they admit."""
    state = {"policy": {"acl": acl}, "rules": RULES}
    assert admits(state, server, who) is is_admitted
    assert shows(state, server, listed, names, who) is is_shown
    assert shows(state, server, listed, names) or not is_shown, "what one sees is advertised"


def sets_acl(owner: Person, *rules: Json) -> None:
    """Set the access list of the room."""
    policy = {**owner.room.state()["policy"], "acl": list(rules)}
    assert owner.says("room.policy", {"policy": policy}).refusal == ""


def lists_of(room: Room, principal: str, **said: Any) -> dict[str, set[str]]:
    """What a new session is greeted with: the names of the entries of the server fs, by kind."""
    session = room.join(principal, {"proto": "ENSO-1", "caps": ["tool.call"], **said})
    session.leave()
    [advert] = [one["payload"] for one in session.greeting if one["type"] == "tool.advertise"] or [{}]
    found = {key: {one["uri" if key == "resources" else "name"] for one in advert.get(key, [])} for key in KEYS}
    assert set(advert.get("digests", ())) == found["tools"] and set(advert.get("uris", ())) == found["resources"]
    return found


KEYS = ("tools", "resources", "prompts")


def client_lists(room: Room, principal: str) -> set[str]:
    """The served names of the entries that an MCP client of the hub sees."""
    offer = load_offer(room.core.store, f"room.{room.name}")
    assert offer is not None
    served = {name for entries in offer.descriptors()[0].values() for name in entries}
    return served - RoomServers(rooms_by_room[room.id]).audience(offer).hidden_from(principal)


rooms_by_room: dict[str, Rooms] = {}


@pytest.fixture
def room(rooms: Rooms) -> Room:
    """A room of alice, in which bob shares a server with everything."""
    made = rooms.create("demo", "alice")
    rooms_by_room[made.id] = rooms
    bob = Person(made, "bob")
    bob.announces("fs", READ, WIPE, resources=[NOTES, {"uri": "a://b", "name": "secret"}], prompts=[SCOLD])
    return made


def test_a_tightened_list_reaches_what_is_announced_already(room: Room) -> None:
    """34.10: the advertisement, the greeting, the MCP server, and every kind of call; a change is told to members."""
    alice, carol = Person(room, "alice"), Person(room, "carol")
    everything = {"fs__read", "fs__wipe", "fs__scold", NOTES["uri"], "a://b"}
    assert client_lists(room, "zoe") == everything
    sets_acl(alice, {"tools": ["read"], "resources": ["notes"]})
    advert = carol.waits_for("tool.advertise")["payload"]
    assert ([one["name"] for one in advert["tools"]], advert["uris"]) == (["read"], [NOTES["uri"]])
    assert lists_of(room, "dan") == {"tools": {"read"}, "resources": {NOTES["uri"]}, "prompts": set()}
    assert client_lists(room, "zoe") == {"fs__read", NOTES["uri"]}
    assert [one.name for one in room.tools()] == ["read"]
    for name, method, word in (
        ("wipe", "tools/call", "tool"),
        ("a://b", "resources/read", "resource"),
        ("scold", "prompts/get", "prompt"),
    ):
        sentence = f"unknown {word}: {name}; the server fs is ready and has no such {word}"
        assert carol.result_of(carol.calls("fs", name, method=method))["error"] == sentence
        [failed] = room.call("fs", name, {}, "zoe", 60, method)
        assert failed.message == sentence  # type: ignore[union-attr]
    assert carol.calls("fs", "read") in room.state()["calls"]
    assert carol.calls("fs", NOTES["uri"], method="resources/read") in room.state()["calls"]


def test_a_loosened_list_shows_what_was_announced_before(room: Room) -> None:
    """34.10: the whole announcement is in the log, and the list is that of now."""
    alice = Person(room, "alice")
    sets_acl(alice, {"tools": ["read"], "resources": []})
    sets_acl(alice)
    assert lists_of(room, "dan")["tools"] == {"read", "wipe"}
    assert client_lists(room, "zoe") == {"fs__read", "fs__wipe", "fs__scold", NOTES["uri"], "a://b"}


def test_a_policy_that_changes_no_list_advertises_nothing(room: Room) -> None:
    """34.10: members hear of a changed list only."""
    alice = Person(room, "alice")
    alice.says("room.policy", {"policy": {**room.state()["policy"], "gateway": False}})
    alice.reads()
    assert "tool.advertise" not in alice.types()


def test_each_participant_sees_what_its_own_rules_show(room: Room) -> None:
    """34.10, 34.11: in the greeting, in the advertisement and in the log; the owner of a server sees all of it."""
    alice = Person(room, "alice")
    carol, robot = Person(room, "carol"), Person(room, "robot", agent={"name": "robot"})
    rules = {"roles": ["agent"], "tools": ["read"]}, {"roles": ["owner"], "tools": ["wipe"]}
    sets_acl(alice, *rules)
    seen = {
        who.id: [one["name"] for one in who.waits_for("tool.advertise")["payload"]["tools"]]
        for who in (carol, robot, alice)
    }
    assert seen == {carol.id: [], robot.id: ["read"], alice.id: ["wipe"]}
    assert lists_of(room, "dan")["tools"] == set()
    assert lists_of(room, "rob", agent={"name": "rob"})["tools"] == {"read"}
    assert client_lists(room, "alice") == {"fs__wipe", "fs__scold"} - {"fs__scold"} | {NOTES["uri"], "a://b"}
    assert client_lists(room, "zoe") == set()
    for person, name, fits in (
        (robot, "read", True),
        (robot, "wipe", False),
        (alice, "wipe", True),
        (carol, "read", False),
    ):
        assert (person.calls("fs", name) in room.state()["calls"]) is fits, (person.member, name)


def test_a_new_role_of_a_member_changes_its_lists(room: Room) -> None:
    """34.10: a member that becomes an owner is told of the tools of owners."""
    alice, carol = Person(room, "alice"), Person(room, "carol")
    sets_acl(alice, {"roles": ["owner"]})
    assert carol.waits_for("tool.advertise")["payload"]["tools"] == []
    alice.says("room.member", {"member": carol.member, "role": "owner"})
    carol.waits_for("tool.advertise", lambda payload: "wipe" in payload["digests"])
    assert "fs__wipe" in client_lists(room, "carol")


def test_the_log_hides_the_contents_of_a_list_and_is_verified_all_the_same(room: Room) -> None:
    """34.10: a line is signed as a whole, so that its contents are shown as a whole or not at all."""
    alice, _ = Person(room, "alice"), Person(room, "carol", after=0)
    alice.says("room.policy", {"policy": {**room.state()["policy"], "history": "all", "acl": [{"tools": ["read"]}]}})
    for principal, hidden in (("carol", {"mcp.announce", "tool.advertise"}), (None, set())):
        lines = list(room.lines(0, principal))
        assert verify(lines).ok
        rows = [orjson.loads(line) for line in lines]
        without = {
            one["entry"]["envelope"]["type"]
            for one in rows
            if "__enso_cid__" in one["entry"]["envelope"]["payload"] and "content" not in one
        }
        assert without == hidden, principal
    late = Person(room, "dan", after=0)
    late.reads()
    [announced] = [one.envelope["payload"] for one in late.heard if one.envelope["type"] == "mcp.announce"]
    assert [one["name"] for one in announced["tools"]] == ["read"]


def test_another_worker_lists_by_the_policy_of_now() -> None:
    """34.10: the state is read at each list, whichever process changed it."""
    store = MemoryStore()
    with rooms_of(store) as first, rooms_of(store) as second:
        here = first.create("demo", "alice")
        there = second.open("demo")
        rooms_by_room[here.id] = second
        bob, alice = Person(here, "bob"), Person(here, "alice")
        bob.announces("fs", READ, WIPE)
        sets_acl(alice, {"tools": ["read", "wipe"]})
        there.core.feed.pump()
        assert client_lists(there, "zoe") == {"fs__read", "fs__wipe"}
        sets_acl(alice, {"tools": ["read"]})
        assert client_lists(there, "zoe") == {"fs__read"}


RULE = st.fixed_dictionaries(
    {},
    optional={
        "servers": st.lists(st.sampled_from(["fs", "g*", "*"]), max_size=2),
        "roles": st.lists(st.sampled_from(["human", "agent", "owner", "*", "[ho]*"]), max_size=2),
        "members": st.lists(st.sampled_from(["member-*", "nobody", "*"]), max_size=1),
        "tools": st.lists(st.sampled_from(["read", "wipe", "*", "w?pe"]), max_size=2),
    },
)


@settings(max_examples=50, deadline=None)
@given(st.lists(RULE, max_size=4))
def test_what_a_participant_sees_is_what_it_can_call(acl: list[Json]) -> None:
    """34.10, 34.11: for made-up lists, in the room and as an MCP client."""
    with rooms_of() as rooms:
        room = rooms.create("demo", "alice", {"policy": {"acl": acl}})
        rooms_by_room[room.id] = rooms
        alice = Person(room, "alice")
        if alice.announces("fs", READ, WIPE).refusal:
            return  # the list admits the owner to no server of this name
        people: list[tuple[str, Json]] = [("alice", {}), ("carol", {}), ("robot", {"agent": {"name": "robot"}})]
        for principal, said in people:
            seen = lists_of(room, principal, **said)["tools"]
            person = Person(room, principal, **said)
            assert {name for name in ("read", "wipe") if person.calls("fs", name) in room.state()["calls"]} == seen
            listed = {name.removeprefix("fs__") for name in client_lists(room, principal)}
            assert {name for name in ("read", "wipe") if client_may_call(room, principal, name)} == listed


def client_may_call(room: Room, principal: str, name: str) -> bool:
    """Whether the log takes a call by an MCP client that has not joined."""
    payload: Json = {
        "callId": str(uuid4()),
        "serverId": "fs",
        "name": name,
        "args": {},
        "caller": room.pseudonym(principal),
    }
    try:
        room.core.append_own("tool.call", payload)
    except RoomRefused:
        return False
    return True
