"""Calls: partials, streams, deadlines, cancellation, evaluation mode, answers from the log, and every refusal."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from patchbay.rooms.room import Room
from patchbay.rooms.servers.answers import AnswerCache
from tests.rooms.people import BOUNDS, LIST, READ, Person, call, rooms_of

Json = dict[str, Any]


@pytest.fixture
def owner(room: Room) -> Person:
    """The owner of the server fs."""
    bob = Person(room, "bob")
    bob.announces("fs", READ, LIST)
    return bob


@pytest.fixture
def caller(room: Room, owner: Person) -> Person:
    """A member who calls it."""
    return Person(room, "carol", caps=["tool.call"])


def test_a_call_and_its_result_are_in_the_log_once_each(room: Room, owner: Person, caller: Person) -> None:
    """ENS-9, ENS-12, ENS-16: the call as it was sent, one result, both signed by the hub in one trail."""
    call_id = caller.calls("fs", "read", {"path": "/a"}, ttlMs=8000)
    record = room.state()["calls"][call_id]
    assert record["expires"] == room.entries(record["seq"] - 1)[0].entry.at + 8000
    owner.answers(call_id, {"content": []})
    assert owner.answers(call_id, {"content": []}).refusal == f"no call {call_id} is open"
    assert caller.result_of(call_id) == {"callId": call_id, "ok": True, "result": {"content": []}}
    types = [one.entry.envelope["type"] for one in room.entries()]
    assert (types.count("tool.call"), types.count("tool.result")) == (1, 1)
    key = room.state()["key"]
    assert all(one.entry.is_signed_by(key) for one in room.entries())
    logged = next(one.envelope for one in room.entries() if one.envelope["type"] == "tool.call")
    assert logged["payload"] == {
        **{"callId": call_id, "provider": "mcp", "serverId": "fs", "name": "read", "args": {"path": "/a"}},
        "ttlMs": 8000,
    }


def test_text_partials_are_a_stream_too_for_those_who_can_receive_one(
    room: Room, owner: Person, caller: Person
) -> None:
    """ENS-11, ENS-13, ENS-C1: always `tool.partial`; text also as `text/utf8` frames linked to the call."""
    streams = Person(room, "dave", caps=["can.text.stream"])
    call_id = caller.calls("fs", "read")
    for number, text in enumerate(("one ", "two")):
        partial = {"type": "text", "text": text}
        owner.says("tool.partial", {"callId": call_id, "partial": partial, "seq": number, "done": False})
    owner.answers(call_id, "one two")
    caller.result_of(call_id)
    streams.result_of(call_id)
    partials = [one.envelope for one in caller.heard if one.envelope["type"] == "tool.partial"]
    assert [one["payload"]["seq"] for one in partials] == [0, 1]
    assert not [one for one in caller.heard if one.is_stream]
    frames = [one.envelope for one in streams.heard if one.is_stream]
    assert [(one["payload"]["seq"], one["payload"]["data"]) for one in frames] == [(0, "one "), (1, "two"), (2, "")]
    assert {(one["payload"]["codec"], one["payload"]["streamId"]) for one in frames} == {("text/utf8", call_id)}
    assert [one["payload"].get("eof", False) for one in frames] == [False, False, True]
    sent = next(one.envelope["id"] for one in room.entries() if one.envelope["type"] == "tool.call")
    assert all(one["rel"] == {"parents": [sent]} for one in frames)
    assert streams.types().index("tool.result") > max(i for i, one in enumerate(streams.heard) if one.is_stream)


def test_a_partial_that_arrives_after_the_result_is_sent_to_no_member(
    room: Room, owner: Person, caller: Person
) -> None:
    """ENS-13: a tool of a mounted server may still report progress when another process has ended its call."""
    streams = Person(room, "dave", caps=["can.text.stream"])
    call_id = caller.calls("fs", "read")
    owner.answers(call_id, "one")
    caller.result_of(call_id)
    calls = room._calls
    calls.send_partial(call_id, {"type": "text", "text": "late"})
    calls.send_text(call_id, "late")
    following = caller.calls("fs", "read")
    owner.answers(following, "two")
    caller.result_of(following)
    streams.result_of(following)
    assert not [
        one for one in (*caller.heard, *streams.heard) if one.is_stream or one.envelope["type"] == "tool.partial"
    ]
    assert calls.stream_of(call_id).flag
    assert not calls._streams


def test_a_paused_stream_is_held_back_and_missing_frames_are_sent_again(room: Room) -> None:
    """ENS-13: `flow.pause`, `flow.resume` and `flow.nack` are honoured (E-F6)."""
    sender, reader = Person(room, "bob"), Person(room, "carol", caps=["can.text.stream"])

    def frames() -> list[int]:
        return [one.envelope["payload"]["seq"] for one in reader.reads() if one.is_stream]

    def send(number: int) -> None:
        payload = {"streamId": "s1", "codec": "text/utf8", "seq": number, "pts": 0, "data": str(number)}
        sender.says("note", payload, kind="stream")

    send(0)
    assert frames() == [0]
    reader.says("flow.pause", {"streamId": "s1"})
    send(1)
    send(2)
    assert frames() == []
    reader.says("flow.resume", {"streamId": "s1"})
    assert frames() == [1, 2]
    reader.says("flow.nack", {"streamId": "s1", "missing": [0, 2, 7]})
    assert frames() == [0, 2]


def test_a_call_ends_with_its_ttl(room: Room, owner: Person, caller: Person) -> None:
    """ENS-17: `ttlMs` is the deadline of the call (E-F8)."""
    call_id = caller.calls("fs", "read", ttlMs=1)
    result = caller.result_of(call_id)
    assert (result["ok"], result["error"]) == (False, "timeout: the call took longer than its ttlMs")
    assert owner.answers(call_id, 1).refusal == f"no call {call_id} is open"


def test_the_caller_cancels_and_leaving_cancels_too(room: Room, owner: Person, caller: Person) -> None:
    """ENS-19: `tool.cancel` and leaving end a call, and the owner sees both."""
    first = caller.calls("fs", "read")
    assert caller.says("tool.cancel", {"callId": first, "reason": "not needed"}).refusal == ""
    assert caller.result_of(first)["error"] == "cancelled: not needed"
    assert owner.waits_for("tool.cancel")["payload"]["callId"] == first
    second = caller.calls("fs", "read")
    caller.session.leave()
    assert owner.result_of(second)["error"] == "cancelled: the caller has left the room"


def test_evaluation_mode_wants_an_unused_rationale_for_each_call(room: Room, owner: Person, caller: Person) -> None:
    """ENS-19: `guardrail.violation` and a failed result without one; a rationale serves once (E-F11)."""
    Person(room, "alice").says("room.flags", {"flags": {"eval": True}})
    refused = call()
    receipt = caller.session.receive(refused)
    assert receipt.refusal == "missing-rationale: send act.rationale with this callId before the call"
    violation = caller.waits_for("guardrail.violation")["payload"]
    call_id = refused["payload"]["callId"]
    assert violation == {"session": caller.id, "callId": call_id, "reason": "missing-rationale"}
    assert caller.result_of(call_id)["ok"] is False
    caller.says("act.rationale", {"callId": call_id, "rationale": "The notes are needed."})
    again = call()
    again["payload"]["callId"] = call_id
    assert caller.session.receive(again).refusal == ""
    owner.answers(call_id, 1)
    third = call()
    third["payload"]["callId"] = call_id
    assert caller.session.receive(third).refusal.startswith("missing-rationale")


def test_a_tool_that_only_reads_is_answered_from_the_log(room: Room, owner: Person, caller: Person) -> None:
    """ENS-16: cache semantics: `cache.hit` names the result, and the answer is the same."""
    first = caller.calls("fs", "list", {"path": "/"})
    owner.answers(first, {"content": [{"type": "text", "text": "a b"}]})
    result = next(one for one in room.entries() if one.envelope["type"] == "tool.result")
    second = caller.calls("fs", "list", {"path": "/"})
    assert caller.result_of(second)["result"] == caller.result_of(first)["result"]
    hit = caller.waits_for("cache.hit")["payload"]
    assert (hit["callId"], hit["seq"], hit["entry"]) == (second, result.entry.seq, result.entry.cid)
    other = caller.calls("fs", "list", {"path": "/other"})
    written = caller.calls("fs", "read", {"path": "/"})
    assert set(room.state()["calls"]) == {other, written}


def test_a_call_that_its_owner_answers_before_the_log_does_has_the_answer_of_the_owner(
    room: Room, owner: Person, caller: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner may read the call, and answer it, before the hub has looked for an answer in the log."""
    owner.answers(caller.calls("fs", "list"), "from the log")
    find = AnswerCache.find

    def find_slowly(*given: Any) -> Any:
        found = find(*given)
        for call_id in room.state()["calls"]:
            owner.answers(call_id, "from the owner")
        return found

    monkeypatch.setattr(AnswerCache, "find", find_slowly)
    assert caller.result_of(caller.calls("fs", "list"))["result"] == "from the owner"


def test_no_answer_is_given_again_once_the_tool_changed_the_policy_says_no_or_it_was_redacted(
    room: Room, owner: Person, caller: Person
) -> None:
    """ENS-16: the same tool digest, a policy that allows it, and contents that are there."""
    alice = Person(room, "alice")

    def answered() -> str:
        call_id = caller.calls("fs", "list")
        return "" if call_id in room.state()["calls"] else call_id

    first = caller.calls("fs", "list")
    owner.answers(first, "a")
    assert answered()
    seq = next(one.entry.seq for one in room.entries() if one.envelope["type"] == "tool.result")
    alice.says("room.redact", {"seq": seq})
    assert not answered()
    owner.announces("fs", {**LIST, "title": "Another tool"})
    assert not answered()
    for call_id in room.state()["calls"]:
        owner.answers(call_id, "b")
    assert answered()
    alice.says("room.policy", {"policy": {**room.state()["policy"], "cache": {"enabled": False, "ttlMs": 60_000}}})
    assert not answered()


def test_an_answer_is_given_again_only_within_the_time_of_the_policy(
    room: Room, owner: Person, caller: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENS-16: `cache.ttlMs` is counted from the result, by the hub's clock."""
    first = caller.calls("fs", "list")
    owner.answers(first, "a")
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    second = caller.calls("fs", "list")
    assert second in room.state()["calls"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"serverId": "none"}, "unknown server: none; it was not mounted or announced, or its owner has left"),
        ({"name": "none"}, "unknown tool: none; the server fs is ready and has no such tool"),
        ({"provider": "native"}, "unknown tool: read; the room has tools of the provider mcp"),
        ({"ttlMs": 0}, "ttlMs is 0; expected a whole number of milliseconds above 0"),
        ({"callId": ""}, "callId is ''; expected a string of 1 to 512 characters"),
        ({"args": [1]}, "the call's args are not an object"),
    ],
)
def test_a_call_that_cannot_be_is_answered_and_not_logged(
    room: Room, owner: Person, caller: Person, change: Json, sentence: str
) -> None:
    """ENS-19: `tool.result` with `ok: false` and a sentence, never silence."""
    made = call()
    made["payload"] |= change
    before = room.seq
    receipt = caller.session.receive(made)
    assert receipt.refusal == sentence
    assert [one["type"] for one in receipt.answers] == ["tool.result"]
    answer = caller.waits_for("tool.result")
    assert answer["payload"] == {"callId": made["payload"]["callId"], "ok": False, "error": sentence}
    assert answer["rel"] == {"replyTo": made["id"]}
    assert room.seq == before


def test_a_role_without_the_power_to_call_is_answered_too(room: Room, owner: Person) -> None:
    """ENS-19: no right is a failed result with a sentence."""
    Person(room, "alice").says("room.member", {"principal": "zoe", "role": "observer"})
    zoe = Person(room, "zoe", caps=["tool.call"])
    call_id = zoe.calls("fs", "read")
    assert zoe.result_of(call_id)["error"] == "the role observer has no power to call in this room"


def test_an_open_callid_is_not_used_twice_and_open_calls_are_bounded() -> None:
    """ENS-9: bounds of a room name their setting."""
    with rooms_of(bounds=replace(BOUNDS, calls=2)) as rooms:
        room = rooms.create("demo", "alice")
        bob = Person(room, "bob")
        bob.announces("fs")
        first = call()
        bob.session.receive(first)
        again = call()
        again["payload"]["callId"] = first["payload"]["callId"]
        assert (
            bob.session.receive(again).refusal
            == f"the call {first['payload']['callId']} is open already; choose a new callId"
        )
        bob.calls("fs", "read")
        assert bob.session.receive(call()).refusal == "2 calls are open in the room (--room-calls); try again later"
