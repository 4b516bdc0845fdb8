"""The hello and its answers: capabilities, privacy, presence, and what comes before a hello."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.rooms.record.errors import BadFrame, RoomRefused
from patchbay.rooms.record.hello import has_streams, read_hello
from patchbay.rooms.room import Room
from tests.rooms.people import EVERYTHING, Person, hello


def test_a_hello_is_answered_by_privacy_accepted_room_policy_and_presence_join(room: Room) -> None:
    """ENS-18: the answer to a hello (E-F3); ENS-C2: the whole envelope is on the wire."""
    session = room.join("alice", hello("tool.call", agent={"name": "cli", "version": "1"}, cache={"store": "memory"}))
    accepted, policy, presence = session.greeting
    assert [one["type"] for one in session.greeting] == ["privacy.accepted", "room.policy", "presence.join"]
    assert accepted["payload"]["profile"] == "pseudonymous"
    assert accepted["payload"]["negotiatedCaps"] == ["tool.call"]
    assert accepted["payload"]["wantsE2E"] is False
    assert accepted["payload"]["agent"] == {"name": "cli", "version": "1"}
    assert accepted["payload"]["cache"] == {"store": "memory"}
    assert policy["payload"]["policy"]["join"] == "public"
    assert presence["payload"]["session"] == session.id
    for envelope in session.greeting:
        assert set(envelope) == {"id", "ts", "room", "from", "kind", "type", "payload"}


def test_the_capabilities_of_mcp_come_on_top_of_those_to_call_and_to_host(room: Room) -> None:
    """ENS-3: `mcp.client` and `mcp.server:<id>` stand beside `tool.call` and `tool.host`."""
    alice = Person(room, "alice", caps=EVERYTHING)
    assert room.state_now["sessions"][alice.id]["caps"] == EVERYTHING
    assert alice.announces("fs").seq is not None
    assert (
        alice.announces("other").refusal
        == "the session lacks the capability mcp.server:other; add it to caps in its hello"
    )
    only_host = Person(room, "bob", caps=["mcp.server:git"])
    assert (
        only_host.announces("git").refusal == "the session lacks the capability tool.host; add it to caps in its hello"
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"proto": "ENSO-2"}, "the hello has the proto 'ENSO-2'; expected 'ENSO-1'"),
        ({"proto": None}, "the hello has the proto None; expected 'ENSO-1'"),
        ({"caps": []}, "the hello has no caps; expected a list of at least one capability, such as tool.call"),
        ({"caps": "tool.call"}, "caps is not a list of at most 256 capabilities"),
        ({"caps": [""]}, "the capability '' is not a string of 1 to 200 characters"),
        ({"caps": ["mcp.server:a b"]}, "the capability 'mcp.server:a b' names no server"),
        ({"privacy": {"profile": "secret"}}, "the hello's privacy has no known profile; expected one of persistent"),
        ({"privacy": {"wantsE2E": 1}}, "the hello's privacy.wantsE2E is not a boolean"),
        ({"agent": {"version": "1"}}, "the hello's agent has no name"),
        ({"cache": {"store": "tape"}}, "the hello's cache names no store; expected one of memory, disk, s3, ipfs"),
        ({"cache": {"store": "disk", "scope": "moon"}}, "the hello's cache names no scope"),
        ({"key": "AAAA"}, "the hello's key is not an Ed25519 public key"),
    ],
)
def test_a_wrong_hello_is_refused_with_its_sentence(room: Room, change: dict[str, Any], sentence: str) -> None:
    """ENS-18: a wrong proto or no caps is refused (E-F2), and the room stays as it is."""
    before = room.seq
    with pytest.raises(BadFrame) as refusal:
        room.join("alice", hello() | change)
    assert refusal.value.message.startswith(sentence)
    assert room.seq == before


def test_a_hello_without_privacy_is_pseudonymous_and_one_against_logging_is_ephemeral() -> None:
    """ENS-18: clients of the reference leave `privacy` out now and then."""
    assert read_hello(hello()).profile == "pseudonymous"
    assert read_hello(hello(privacy={"profile": "persistent", "allowLogging": False})).profile == "ephemeral"
    assert read_hello(hello(privacy={"profile": "ghost", "allowLogging": False})).profile == "ghost"


def test_a_role_keeps_only_the_capabilities_that_it_can_use(rooms: Any) -> None:
    """ENS-18: the negotiated capabilities are those of the hello that the role allows (E-F13)."""
    room = rooms.create("quiet", "alice")
    owner = Person(room, "alice")
    owner.says("room.member", {"principal": "bob", "role": "observer"})
    bob = room.join("bob", hello("tool.call", "tool.host", "mcp.client", "mcp.server:fs", "can.text.stream"))
    assert bob.greeting[0]["payload"]["negotiatedCaps"] == ["can.text.stream"]
    assert room.state_now["sessions"][bob.id]["role"] == "observer"


def test_capabilities_change_under_a_revision_that_only_grows(room: Room) -> None:
    """ENS-18: `caps.update` names the whole set, what was granted and revoked, and a monotonic revision (E-F4)."""
    alice, bob = Person(room, "alice", caps=["tool.call"]), Person(room, "bob", caps=["tool.call"])
    alice.says("caps.update", {"grant": ["mcp.client"], "reason": "to mount", "requestId": "r1"})
    alice.says("caps.update", {"revoke": ["tool.call"]})
    first, second = (one.envelope["payload"] for one in bob.reads() if one.envelope["type"] == "caps.update")
    assert (first["caps"], first["granted"], first["revision"]) == (["tool.call", "mcp.client"], ["mcp.client"], 1)
    assert (first["reason"], first["requestId"]) == ("to mount", "r1")
    assert (second["caps"], second["revoked"], second["revision"]) == (["mcp.client"], ["tool.call"], 2)
    assert second["acknowledgedAt"]
    assert room.state_now["sessions"][alice.id]["revision"] == 2


@pytest.mark.parametrize("revision", [0, 2, None])
def test_the_fold_refuses_a_revision_that_does_not_follow(room: Room, revision: int | None) -> None:
    """ENS-18: no gap and no repeat in the revisions of a session (E-F4)."""
    alice = Person(room, "alice")
    payload: dict[str, Any] = {"session": alice.id, "caps": [], "revision": revision}
    with pytest.raises(RoomRefused, match=f"the revision is {revision}; expected 1"):
        room.core.append_own("caps.update", payload)


def test_a_second_hello_is_refused_and_so_is_anything_after_leaving(room: Room) -> None:
    """ENS-18: a session says hello once; after its end nothing is accepted."""
    alice = Person(room, "alice")
    assert alice.says("hello", hello()).refusal == "this session has said hello already"
    alice.session.leave()
    with pytest.raises(RoomRefused, match="the session has ended; say hello again"):
        alice.says("chat.msg", {"text": "too late"})


def test_every_member_sees_who_joins_and_leaves(room: Room) -> None:
    """ENS-18: every member is notified of presence."""
    alice = Person(room, "alice")
    bob = Person(room, "bob")
    bob.session.leave("good night")
    came, went = alice.reads()
    assert (came.envelope["type"], came.envelope["payload"]["session"]) == ("presence.join", bob.id)
    assert went.envelope["type"] == "presence.part"
    assert went.envelope["payload"] == {"session": bob.id, "reason": "good night"}


@pytest.mark.parametrize(
    ("caps", "expected"), [(["stream"], True), (["can.voice.stream"], True), (["tool.call"], False)]
)
def test_a_session_receives_streams_when_its_capabilities_say_so(caps: list[str], expected: bool) -> None:
    """ENS-C1: text is framed as a stream for sessions that can receive streams."""
    assert has_streams(caps) is expected
