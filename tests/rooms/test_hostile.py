"""Hostile frames, hellos and envelopes: each is refused with its sentence, and nothing of it is logged."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from patchbay.errors import PatchbayError
from patchbay.rooms.record.canonical import Signer, signed_bytes
from patchbay.rooms.record.entry import make_entry
from patchbay.rooms.record.envelope import frame_bytes, parse_frame
from patchbay.rooms.record.errors import BadFrame, RoomRefused, TooMany
from patchbay.rooms.record.verification import verify
from patchbay.rooms.room import Room
from tests.rooms.people import BOUNDS, KEY, Person, call, envelope, hello, rooms_of

Json = dict[str, Any]
LIMIT = 1024 * 1024
OWN, OTHER = (Ed25519PrivateKey.generate() for _ in range(2))


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def mount(url: str = "https://93.184.216.34/mcp", transport: Json | None = None, **more: Any) -> Json:
    payload = {"serverId": "evil", "transport": {"kind": "http-stream", "url": url} | (transport or {}), **more}
    return envelope("mcp.mount", payload)


def public(key: Ed25519PrivateKey) -> str:
    return b64encode(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def signed(found: Json, key: Ed25519PrivateKey) -> Json:
    return {**found, "sig": b64encode(key.sign(signed_bytes(found))).decode()}


FRAMES: list[tuple[str, bytes, str]] = [
    ("no JSON", b"{nope", "the message is not JSON"),
    ("no object", b"[1]", "the message is JSON of the type list; expected an object"),
    ("unknown type", b'{"type":"shout"}', "a frame has the type 'shout'; expected hello, envelope, ping or pong"),
    ("no payload", b'{"type":"envelope"}', "a frame of the type envelope has no payload; expected an object"),
    ("too large", b'{"type":"hello","payload":{"x":"%s"}}' % (b"x" * LIMIT), "the message has 1048611 bytes"),
    ("too deep", orjson.dumps({"type": "hello", "payload": {"x": nested(60)}}), "the message nests more than 32"),
    ("too many", orjson.dumps({"type": "hello", "payload": {"x": [0] * 60_000}}), "the message has more than 50000"),
    ("no UTF-8", b'{"type":"\xff"}', "the message is not JSON"),
    ("NaN", b'{"type":"hello","payload":{"x":NaN}}', "the message is not JSON"),
    (
        "inexact number",
        b'{"type":"hello","payload":{"x":9007199254740993}}',
        "the number 9007199254740993 is not exact",
    ),
    (
        "no base64",
        b'{"type":"hello","payload":{"x":{"__enso_binary__":"%%"}}}',
        "bytes in __enso_binary__ are not base64",
    ),
    (
        "bytes beside keys",
        b'{"type":"hello","payload":{"x":{"__enso_binary__":"AAAA","y":1}}}',
        "bytes in __enso_binary__ are not base64: it stands beside other keys",
    ),
]

ENVELOPES: list[tuple[str, Callable[[Person], Json], str]] = [
    ("no id", lambda me: {**envelope("chat.msg", {}), "id": None}, "the envelope's id is None; expected a UUID"),
    ("an id that is not a UUID", lambda me: envelope("chat.msg", {}, id="../../x"), "the envelope's id is '../../x'"),
    (
        "no time",
        lambda me: envelope("chat.msg", {}, ts="yesterday"),
        "the envelope's ts is 'yesterday'; expected a time",
    ),
    (
        "unknown kind",
        lambda me: envelope("chat.msg", {}, kind="state"),
        "the envelope's kind is 'state'; expected event",
    ),
    ("no type", lambda me: envelope("", {}), "the envelope's type is ''; expected a name such as tool.call"),
    ("a path as type", lambda me: envelope("../etc", {}), "the envelope's type is '../etc'"),
    ("no payload", lambda me: {**envelope("chat.msg", {}), "payload": "x"}, "the envelope has no payload"),
    ("unknown field", lambda me: envelope("chat.msg", {}, admin=True), "the envelope has the unknown field 'admin'"),
    ("wrong seq", lambda me: envelope("chat.msg", {}, seq=-1), "the envelope's seq is -1; expected a whole number"),
    ("wrong rel", lambda me: envelope("chat.msg", {}, rel={"x": 1}), "the envelope's rel is not an object of replyTo"),
    (
        "too many parents",
        lambda me: envelope("a", {}, rel={"parents": ["x"] * 17}),
        "the envelope's rel names something",
    ),
    ("too deep", lambda me: envelope("chat.msg", {"x": nested(60)}), "the message nests more than 32"),
    ("too large", lambda me: envelope("chat.msg", {"x": "x" * LIMIT}), "the envelope has"),
    (
        "a mark of the hub",
        lambda me: envelope("chat.msg", {"__enso_cid__": "x"}),
        "the message has one of the keys __enso",
    ),
    ("a sig that is not a string", lambda me: envelope("chat.msg", {}, sig=5), "the envelope's sig is not a string"),
    (
        "a stream without an id",
        lambda me: envelope("voice.frame", {}, kind="stream"),
        "a stream envelope has no streamId",
    ),
    ("a mount without transport", lambda me: envelope("mcp.mount", {"serverId": "x"}), "the mount has no transport"),
    ("a long URL", lambda me: mount("https://x/" + "x" * 3000), "the transport's url is not a string of at most 2048"),
    (
        "caps that are not a list",
        lambda me: envelope("caps.update", {"caps": "all"}),
        "caps is not a list of at most 256",
    ),
]

REFUSED: list[tuple[str, Callable[[Person], Json], str]] = [
    (
        "a forged sender",
        lambda me: envelope("chat.msg", {}, **{"from": "hub"}),
        "the envelope is from 'hub'; this session",
    ),
    ("a foreign room", lambda me: envelope("chat.msg", {}, room="other"), "the envelope is for the room 'other'"),
    (
        "what only the hub sends",
        lambda me: envelope("presence.join", {"session": "x"}),
        "only the hub sends presence.join",
    ),
    ("an advertisement", lambda me: envelope("tool.advertise", {"serverId": "x"}), "only the hub sends tool.advertise"),
    ("a second creation", lambda me: envelope("room.create", {"name": "x"}), "only the hub sends room.create"),
    (
        "a program",
        lambda me: mount(transport={"kind": "process", "command": "sh"}),
        "a room starts no programs on the hub",
    ),
    ("another transport", lambda me: mount(transport={"kind": "pigeon"}), "the transport is 'pigeon'; a room mounts"),
    ("credentials", lambda me: mount(headers={"Authorization": "x"}), "the mount has the field 'headers'; expected"),
    (
        "a token",
        lambda me: mount(transport={"token": "x"}),
        "the transport has the field 'token'; expected kind and url;",
    ),
    (
        "a secret in the URL",
        lambda me: mount("https://u:p@x.example/"),
        "the transport's url has something secret in it",
    ),
    (
        "a secret in the query",
        lambda me: mount("https://x.example/?api_key=1"),
        "the transport's url has something secret",
    ),
    ("a variable", lambda me: mount("https://x.example/${HOME}"), "the transport's url has something secret in it"),
    ("this machine", lambda me: mount("http://127.0.0.1:1/mcp"), "the mount leads to 127.0.0.1, which is not a public"),
    (
        "metadata",
        lambda me: mount("http://169.254.169.254/"),
        "the mount leads to 169.254.169.254, which is not a public",
    ),
    ("IPv4 in IPv6", lambda me: mount("http://[::ffff:10.0.0.1]/"), "the mount leads to ::ffff:10.0.0.1, which is not"),
    (
        "a decimal address",
        lambda me: mount("http://2130706433/"),
        "the mount leads to 2130706433, which is not a public",
    ),
    ("a file", lambda me: mount("file:///etc/passwd"), "the transport's url is 'file:///etc/passwd'; expected one"),
    (
        "a serverId with a path",
        lambda me: envelope("mcp.announce", {"serverId": "../x"}),
        "the serverId is '../x'; expected",
    ),
    ("a result of no call", lambda me: envelope("tool.result", {"callId": "x", "ok": True}), "no call x is open"),
    ("a partial of no call", lambda me: envelope("tool.partial", {"callId": "x"}), "no call 'x' of this session's"),
    ("a cancel of no call", lambda me: envelope("tool.cancel", {"callId": "x"}), "no call x is open"),
    (
        "a policy",
        lambda me: envelope("room.policy", {"policy": {}}),
        "the role human has no power to policy in this room",
    ),
    (
        "a role of its own",
        lambda me: envelope("room.member", {"member": me.member, "role": "owner"}),
        "the role human has no",
    ),
    (
        "a foreign signature",
        lambda me: signed(envelope("chat.msg", {}, **{"from": me.id, "room": "demo"}), OTHER),
        "the signature is not",
    ),
    (
        "a signature of something else",
        lambda me: {**signed(call(**{}), OWN), "from": me.id, "room": "demo"},
        "the signature is not",
    ),
    (
        "a signature without a sender",
        lambda me: signed(envelope("chat.msg", {}), OWN),
        "a signed envelope names its own",
    ),
]


@pytest.mark.parametrize(("frame", "sentence"), [row[1:] for row in FRAMES], ids=[row[0] for row in FRAMES])
def test_a_bad_frame_is_refused_with_its_sentence(frame: bytes, sentence: str) -> None:
    """ENS-18: a bad frame closes the connection with 1011 (E-F5)."""
    with pytest.raises(BadFrame) as refusal:
        parse_frame(frame, LIMIT)
    assert refusal.value.message.startswith(sentence)


@pytest.mark.parametrize(("make", "sentence"), [row[1:] for row in ENVELOPES], ids=[row[0] for row in ENVELOPES])
def test_an_invalid_envelope_is_refused_and_not_logged(
    room: Room, make: Callable[[Person], Json], sentence: str
) -> None:
    """ENS-18, ENS-C2, 34.13: the whole envelope is demanded, within bounds (E-F1). The session stays.

    An envelope without an id or a type cannot be answered: it is a frame that cannot be read.
    """
    mallory = Person(room, "mallory")
    mallory.announces("fs")
    before, sent = room.seq, make(mallory)
    try:
        receipt = mallory.session.receive(sent)
    except BadFrame as problem:
        assert problem.message.startswith(sentence)
        assert sent["id"] in (None, "../../x") or sent["type"] in ("", "../etc")
    else:
        assert receipt.refusal.startswith(sentence)
        assert not receipt.is_readable
        (answer,) = receipt.answers
        assert answer["rel"] == {"replyTo": sent["id"]}
        assert answer["type"] == ("mcp.mount.failed" if sent["type"] == "mcp.mount" else "room.refused")
    assert room.seq == before
    assert (mallory.session.is_closed, list(room.state()["servers"])) == (False, ["fs"])


@pytest.mark.parametrize(("make", "sentence"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_forbidden_envelope_is_answered_with_its_sentence_and_not_logged(
    room: Room, make: Callable[[Person], Json], sentence: str
) -> None:
    """ENS-19: a refusal is an event to the sender alone; the log does not grow."""
    alice, mallory = Person(room, "alice"), Person(room, "mallory", key=public(OWN))
    before, sent = room.seq, make(mallory)
    receipt = mallory.session.receive(sent)
    assert receipt.refusal.startswith(sentence)
    assert (receipt.seq, room.seq) == (None, before)
    (answer,) = receipt.answers
    assert answer["type"] == {"mcp.mount": "mcp.mount.failed", "tool.call": "tool.result"}.get(
        sent["type"], "room.refused"
    )
    assert answer["payload"]["error"] == receipt.refusal
    assert mallory.waits_for(answer["type"])["rel"] == {"replyTo": sent["id"]}
    assert "presence.join" in alice.types()
    assert answer["type"] not in alice.types()


def test_there_are_at_least_forty_hostile_envelopes() -> None:
    """ENS-19: sizes, depths, forged senders, replays, programs, credentials, private addresses, signatures."""
    assert len(ENVELOPES) + len(REFUSED) >= 40


def test_a_signed_envelope_is_kept_with_its_signature_and_checked_by_verify(room: Room) -> None:
    """ENS-C7, ENS-16: participants' own signatures are kept and verified (E-F10)."""
    bob = Person(room, "bob", key=public(OWN))
    receipt = bob.session.receive(
        signed(envelope("chat.msg", {"text": "by me"}, **{"from": bob.id, "room": "demo"}), OWN)
    )
    assert receipt.refusal == ""
    assert verify(room.lines()).ok
    lines = list(room.lines())
    found = orjson.loads(lines[-1])
    assert found["entry"]["envelope"]["sig"]
    assert room.entries()[-1].envelope["sig"] == found["entry"]["envelope"]["sig"]
    last, contents = room.entries()[-1].entry, found["content"]
    forged = signed({**room.entries()[-1].envelope}, OTHER)["sig"]
    made = make_entry(Signer(KEY), last.seq, last.prev, last.at, {**last.envelope, "sig": forged})
    verdict = verify([*lines[:-1], made.line(contents)])
    assert (verdict.seq, verdict.reason) == (last.seq, "the participant's signature is not of this envelope")


def test_the_policy_demands_signatures_by_role_or_type(rooms: Any) -> None:
    """ENS-C7: without one the envelope is refused (E-F10)."""
    room = rooms.create("signed", "alice", {"policy": {"signatures": {"roles": ["agent"], "types": ["room.flags"]}}})
    alice, robot = (
        Person(room, "alice", key=public(OWN)),
        Person(room, "bob", agent={"name": "robot"}, key=public(OTHER)),
    )
    assert (
        robot.says("chat.msg", {"text": "x"}).refusal
        == "the room's policy demands a signature of chat.msg by the role agent"
    )
    assert alice.says("chat.msg", {"text": "x"}).refusal == ""
    assert alice.says("room.flags", {"flags": {}}).refusal.startswith(
        "the room's policy demands a signature of room.flags"
    )
    made = envelope("room.flags", {"flags": {"a": 1}}, **{"from": alice.id, "room": room.id})
    assert alice.session.receive(signed(made, OWN)).refusal == ""
    with pytest.raises(BadFrame):
        Person(room, "zoe", key="not a key")


def test_a_signature_without_a_key_in_the_hello_is_refused(room: Room) -> None:
    """ENS-C7: what cannot be verified is not taken for verified."""
    bob = Person(room, "bob")
    made = signed(envelope("chat.msg", {}, **{"from": bob.id, "room": "demo"}), OWN)
    assert bob.session.receive(made).refusal == (
        "the envelope has a signature, and the session's hello has no key to check it with"
    )


def test_a_flood_is_refused_and_costs_the_log_nothing() -> None:
    """ENS-19: envelopes a second, by the setting that the sentence names."""
    with rooms_of(bounds=replace(BOUNDS, rate=0.5)) as rooms:
        room = rooms.create("demo", "alice")
        mallory = Person(room, "mallory")
        receipts = [mallory.says("chat.msg", {"text": "spam"}) for _ in range(20)]
        assert [one.seq is not None for one in receipts] == [True] * 2 + [False] * 18
        assert receipts[-1].refusal == "more than 0.5 envelopes a second; send fewer (--room-rate)"


def test_the_bounds_of_a_room_name_their_settings() -> None:
    """ENS-19: members, tools, bytes of the log, rooms; a full log can still be put in order."""
    with rooms_of(bounds=replace(BOUNDS, members=2, tools=2, log=6000, rooms=1)) as rooms:
        room = rooms.create("demo", "alice")
        with pytest.raises(TooMany, match=r"the hub has 1 rooms \(--room-count\)"):
            rooms.create("more", "alice")
        alice, bob = Person(room, "alice"), Person(room, "bob")
        with pytest.raises(TooMany, match=r"2 sessions are in the room \(--room-members\)"):
            Person(room, "carol")
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in "abc"]
        assert (
            bob.announces("fs", *tools).refusal
            == "the room has 0 tools and may have 2 (--room-tools); 3 more do not fit"
        )
        refusals = [bob.says("chat.msg", {"text": "x" * 500}).refusal for _ in range(12)]
        assert refusals[-1].startswith("the room's log is full: it has ")
        assert refusals[-1].endswith("(--room-log-limit)")
        assert alice.says("room.flags", {"flags": {"closed": True}}).refusal == ""
        bob.session.leave()
        assert verify(room.lines()).ok


@pytest.mark.parametrize("found", [None, [], "x", {}])
def test_a_value_that_is_not_an_object_is_a_bad_frame(room: Room, found: Any) -> None:
    """ENS-18: nothing but an envelope is taken."""
    with pytest.raises(BadFrame):
        Person(room, "bob").session.receive(found)


def test_a_session_is_resumed_by_its_own_principal_only(room: Room) -> None:
    """ENS-18: a way in without a connection finds its session, and no other one."""
    bob = Person(room, "bob")
    assert room.resume("bob", bob.id) is bob.session
    with pytest.raises(RoomRefused, match="the session is of another caller"):
        room.resume("mallory", bob.id)
    with pytest.raises(RoomRefused, match="is not in the room; say hello again"):
        room.resume("bob", "none")


def test_frames_and_their_answers_are_those_of_the_reference() -> None:
    """ENS-18: `{"type":"envelope","payload":...}`, with the place in the log beside it (E-F5)."""
    assert orjson.loads(frame_bytes(b'{"a":1}')) == {"type": "envelope", "payload": {"a": 1}}
    assert orjson.loads(frame_bytes(b'{"a":1}', 7)) == {"type": "envelope", "payload": {"a": 1}, "seq": 7}
    assert parse_frame('{"type":"ping","ts":"x"}', LIMIT).ts == "x"
    assert parse_frame(orjson.dumps({"type": "hello", "payload": hello()}), LIMIT).payload == hello()
    with pytest.raises(PatchbayError):
        parse_frame("", LIMIT)
