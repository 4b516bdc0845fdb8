"""Payloads of every type with odd values in every field: each is taken or refused with a sentence, and nothing ends."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from patchbay.rooms.receiving import HANDLES
from patchbay.rooms.room import Room
from patchbay.rooms.servers.calls import Calls
from tests.rooms.people import NOTES, READ, Person, call, envelope

Json = dict[str, Any]
ODD: list[Any] = [None, True, -1, 1.5, "", "x" * 600, [], ["x"], [[]], [{}], {}, {"x": []}, {"kind": []}, "\x00"]
RIGHT: dict[str, Json] = {
    "tool.call": {
        "callId": "c",
        "serverId": "fs",
        "name": "read",
        "args": {},
        "ttlMs": 9,
        "provider": "mcp",
        "method": "",
    },
    "tool.partial": {"callId": "open", "partial": {"type": "text", "text": "x"}, "seq": 0},
    "tool.result": {"callId": "open", "ok": True, "result": {}, "error": "x"},
    "tool.stream": {"streamId": "open", "seq": 0, "data": "x"},
    "tool.cancel": {"callId": "open", "reason": "x"},
    "mcp.mount": {
        "serverId": "git",
        "transport": {"kind": "http-stream", "url": "http://192.0.2.1/mcp"},
        **{"exposeTools": True, "exposeResources": [], "labels": {}, "manifest": {}, "credentials": "x"},
    },
    "mcp.unmount": {"serverId": "git"},
    "mcp.announce": {"serverId": "git", "tools": [READ], "resources": [NOTES], "prompts": [], "replaces": []},
    "caps.update": {"caps": ["tool.call"], "grant": ["x"], "revoke": ["y"], "reason": "x", "requestId": "x"},
    "room.redact": {"seq": 1},
    "room.policy": {"policy": {}},
    "room.flags": {"flags": {}},
    "room.member": {"member": "x", "membership": "invited", "role": "human", "powers": [], "principal": "zoe"},
    "act.rationale": {"callId": "c", "rationale": "x"},
    "act.intent": {"intents": ["x"]},
    "presence.heartbeat": {"at": 1},
    "state.patch": {"patch": []},
    "flow.pause": {"streamId": "x"},
    "flow.resume": {"streamId": "x"},
    "flow.nack": {"streamId": "x", "missing": [1]},
    "hello": {"proto": "ENSO-1", "caps": ["x"]},
    "chat.msg": {"text": "x"},
}


def test_every_type_has_a_row() -> None:
    """34.13: a type that the room handles is tried with odd values."""
    assert set(HANDLES) - {"presence.part"} <= set(RIGHT)


@pytest.mark.parametrize(
    ("type", "payload", "missing"),
    [
        ("flow.pause", {}, "streamId"),
        ("flow.resume", {"streamId": 7}, "streamId"),
        ("flow.nack", {"missing": [1]}, "streamId"),
        ("flow.nack", {"streamId": "x"}, "missing"),
        ("flow.nack", {"streamId": "x", "missing": ["1"]}, "missing"),
        ("act.rationale", {}, "callId"),
        ("act.rationale", {"callId": ""}, "callId"),
    ],
)
def test_a_payload_without_what_its_type_needs_is_answered_and_not_logged(
    room: Room, type: str, payload: Json, missing: str
) -> None:
    """50.21"""
    alice = Person(room, "alice")
    before = room.head
    receipt = alice.session.receive(envelope(type, payload))
    assert f" {missing}" in receipt.refusal and type in receipt.refusal
    assert room.head == before


@pytest.mark.parametrize("type", RIGHT)
@pytest.mark.parametrize("kind", ["event", "stream"])
def test_an_odd_payload_is_taken_or_refused_and_ends_nothing(
    room: Room, type: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """34.13: the session stays in the room, with what it shares."""
    alice = Person(room, "alice")
    alice.announces("fs", READ)
    for field in (*RIGHT[type], "policy.acl", "policy.cache", "policy.signatures", "policy.roles", "policy.profiles"):
        for odd in ODD:
            payload = {**RIGHT[type], field: odd}
            if field.startswith("policy."):
                if type != "room.policy":
                    continue
                part = field.removeprefix("policy.")
                payload = {"policy": {**room.state()["policy"], part: odd}}
            receipt = alice.session.receive(envelope(type, payload, kind=kind))
            assert "internal error" not in receipt.refusal, (field, odd, caplog.text)
    assert not alice.session.is_closed
    assert "fs" in room.state()["servers"]
    assert alice.says("chat.msg", {"text": "still here"}).refusal == ""


def test_a_fault_of_the_hub_ends_no_session(
    room: Room, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """34.13: one envelope gets an answer with a number, the log has the traceback, and the session goes on."""
    alice = Person(room, "alice")

    def fail(*_: Any) -> Any:
        raise KeyError("a fault")

    monkeypatch.setattr(Calls, "open", fail)
    with caplog.at_level(logging.ERROR):
        receipt = alice.session.receive(call())
    assert receipt.refusal.startswith("internal error (incident ")
    assert receipt.answers[0]["type"] == "tool.result"
    assert receipt.refusal.removeprefix("internal error (incident ").rstrip(")") in caplog.text
    assert alice.says("chat.msg", {"text": "still here"}).refusal == ""


def test_an_envelope_in_the_log_names_its_room(room: Room) -> None:
    """34.13: whatever the sender wrote in place of the room."""
    alice = Person(room, "alice")
    for name in ("local", "voice", "demo", room.id):
        alice.says("chat.msg", {"text": name}, room=name)
    rooms = [one.envelope["room"] for one in room.entries() if one.envelope["type"] == "chat.msg"]
    assert rooms == ["demo"] * 4
