"""Announced servers: their tools are advertised, their calls reach the owner, members are notified of their end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from patchbay.descriptors import Descriptor
from patchbay.events import Done, Failed, Pause, Progress
from patchbay.rooms.room import Room
from tests.rooms.people import BOUNDS, LIST, NOTES, READ, Person, envelope, rooms_of, serving

Json = dict[str, Any]


def test_an_announcement_is_advertised_to_all_and_every_participant_can_call(room: Room) -> None:
    """ENS-7, ENS-8: descriptors in, `tool.advertise` out (E-F7), and any member calls the tool."""
    owner, caller = Person(room, "bob", caps=["tool.host", "mcp.server:fs"]), Person(room, "carol", caps=["tool.call"])
    owner.announces("fs", READ, resources=[NOTES])
    advert = caller.waits_for("tool.advertise")["payload"]
    assert (advert["provider"], advert["serverId"]) == ("mcp", "fs")
    assert advert["tools"] == [{**READ, "schema": READ["inputSchema"]}]
    assert advert["resources"] == [NOTES]
    assert advert["digests"] == {"read": Descriptor("tool", "read", READ).digest}
    call_id = caller.calls("fs", "read", {"path": "/notes"})
    asked = owner.waits_for("tool.call")["payload"]
    assert (asked["callId"], asked["args"]) == (call_id, {"path": "/notes"})
    owner.answers(call_id, {"content": [{"type": "text", "text": "found"}]})
    assert caller.result_of(call_id)["result"] == {"content": [{"type": "text", "text": "found"}]}


def test_resources_and_prompts_are_advertised_and_called_like_tools(room: Room) -> None:
    """ENS-7, ENS-8: `method` says what a call uses; without it a tool."""
    owner, caller = Person(room, "bob"), Person(room, "carol", caps=["tool.call"])
    owner.announces("fs", LIST, resources=[NOTES], prompts=[{"name": "list"}])
    advert = caller.waits_for("tool.advertise")["payload"]
    assert (advert["prompts"], advert["promptNames"]) == ([{"name": "list"}], ["list"])
    record = room.state()["servers"]["fs"]
    assert (record["resources"], record["prompts"]) == ([NOTES["uri"]], ["list"])
    read = caller.calls("fs", NOTES["uri"], method="resources/read")
    asked = owner.waits_for("tool.call", lambda payload: payload["callId"] == read)["payload"]
    assert (asked["name"], asked["method"]) == (NOTES["uri"], "resources/read")
    owner.answers(read, {"contents": [{"uri": NOTES["uri"], "text": "buy milk"}]})
    assert caller.result_of(read)["result"]["contents"][0]["text"] == "buy milk"
    for method, name, sentence in (
        ("resources/read", "file:///etc/passwd", "unknown resource: file:///etc/passwd; the server fs is ready"),
        ("prompts/get", "none", "unknown prompt: none; the server fs is ready"),
        ("tools/call", NOTES["uri"], f"unknown tool: {NOTES['uri']}; the server fs is ready"),
        ("tasks/cancel", "list", "the method is 'tasks/cancel'; expected one of tools/call, resources/read"),
    ):
        refused = caller.calls("fs", name, method=method)
        assert caller.result_of(refused)["error"].startswith(sentence)
    owner.announces("fs", LIST)
    assert "prompts" not in room.state()["servers"]["fs"]


def test_an_announcement_that_is_too_large_to_be_advertised_leaves_no_server() -> None:
    """ENS-19: the refusal says why, and the room has no server without tools."""
    with rooms_of(bounds=replace(BOUNDS, envelope=4096)) as rooms:
        room = rooms.create("demo", "alice")
        bob = Person(room, "bob")
        many = [{**READ, "name": f"read-{number}", "description": "Read. " * 5} for number in range(30)]
        assert bob.session.receive(envelope("mcp.announce", {"serverId": "fs", "tools": many[:5]})).refusal == ""
        refused = bob.session.receive(envelope("mcp.announce", {"serverId": "fs", "tools": many[:25]}))
        assert "expose less of it" in refused.refusal
        assert room.state()["servers"] == {}


def test_a_prompt_is_not_answered_with_the_result_of_a_tool_of_the_same_name(room: Room) -> None:
    """ENS-16: only tools that read are answered from the log."""
    owner, caller = Person(room, "bob"), Person(room, "carol", caps=["tool.call"])
    owner.announces("fs", LIST, prompts=[{"name": "list"}])
    for first, second in (("tools/call", "prompts/get"), ("prompts/get", "tools/call")):
        args = {"order": first}
        known = caller.calls("fs", "list", args, method=first)
        owner.answers(known, {"content": []})
        caller.result_of(known)
        assert caller.calls("fs", "list", args, method=second) in room.state()["calls"]


@pytest.mark.parametrize(
    ("method", "result", "sentence"),
    [
        ("resources/read", {"content": []}, "a result without contents, which MCP demands of resources/read"),
        ("prompts/get", {"messages": ["hello"]}, "a result without messages, which MCP demands of prompts/get"),
        ("prompts/get", None, "a result without messages"),
    ],
)
def test_a_result_of_the_wrong_form_is_a_failure_with_a_sentence(
    room: Room, method: str, result: Any, sentence: str
) -> None:
    """ENS-12: what the owner answers is checked before an MCP client gets it."""
    bob = Person(room, "bob")
    bob.announces("fs", LIST, resources=[{"uri": "a://b", "name": "b"}], prompts=[{"name": "a://b"}])
    with serving(bob, lambda payload: {"result": result}):
        events = [one for one in room.call("fs", "a://b", {}, "zoe", 60, method) if not isinstance(one, Pause)]
    [failed] = events
    assert isinstance(failed, Failed)
    assert sentence in failed.message


def test_the_capability_to_host_a_server_names_its_id(room: Room) -> None:
    """ENS-2, ENS-C6: the owner of a server holds `mcp.server:<id>` and `tool.host`, and answers its calls."""
    bob = Person(room, "bob", caps=["tool.host", "mcp.server:git", "tool.call"])
    assert "mcp.server:fs" in bob.announces("fs").refusal
    assert "fs" not in room.state_now["servers"]
    bob.announces("git")
    carol = Person(room, "carol")
    call_id = carol.calls("git", "read")
    assert carol.says("tool.result", {"callId": call_id, "ok": True}).refusal == (
        f"the call {call_id} is of a server of another session"
    )
    assert bob.answers(call_id, 1).refusal == ""


def test_digests_of_announced_tools_are_in_the_state_and_change_with_the_tool(room: Room) -> None:
    """ENS-8: what is advertised is what a pin can hold."""
    bob = Person(room, "bob")
    bob.announces("fs", READ)
    before = room.state()["servers"]["fs"]["tools"]
    (tool,) = room.tools()
    assert (tool.server_id, tool.name, tool.digest, tool.kind) == ("fs", "read", before["read"], "announce")
    assert tool.descriptor.digest == tool.digest
    bob.announces("fs", {**READ, "description": "Read and tell."})
    assert room.state()["servers"]["fs"]["tools"] != before


def test_a_tool_that_cannot_be_served_is_left_out_with_its_reason(room: Room) -> None:
    """ENS-7: announced lists are held to the bounds of mounted ones."""
    bob = Person(room, "bob")
    bob.announces("fs", READ, {"name": "bad"}, {"name": "x" * 200, "inputSchema": {"type": "object"}})
    advert = bob.waits_for("tool.advertise")["payload"]
    assert [tool["name"] for tool in advert["tools"]] == ["read"]
    assert 'bad: not served: its inputSchema has no "type": "object"' in advert["problems"]
    assert len(advert["problems"]) == 2


def test_the_same_server_is_replaced_by_its_own_owner_only(room: Room) -> None:
    """ENS-C5: a repeat of a serverId replaces for the same owner, also in a new session; another member is refused."""
    bob, carol = Person(room, "bob"), Person(room, "carol")
    bob.announces("fs", READ)
    assert carol.announces("fs").refusal == "the server fs belongs to another member; choose another serverId"
    again = Person(room, "bob")
    assert again.announces("fs", LIST).refusal == ""
    assert room.state()["servers"]["fs"]["owner"] == again.id
    assert list(room.state()["servers"]["fs"]["tools"]) == ["list"]


def test_leaving_takes_the_servers_away_and_ends_their_calls_with_a_sentence(room: Room) -> None:
    """ENS-19, ENS-C5: `presence.part` of the owner unmounts; open calls get `ok: false`."""
    bob, carol = Person(room, "bob"), Person(room, "carol")
    bob.announces("fs")
    call_id = carol.calls("fs", "read")
    bob.session.leave("the lid was closed")
    assert carol.result_of(call_id)["error"] == "the owner of the server has left the room"
    assert room.state()["servers"] == {}
    late = carol.calls("fs", "read")
    assert carol.result_of(late)["error"] == (
        "unknown server: fs; it was not mounted or announced, or its owner has left"
    )
    Person(room, "bob").announces("fs")
    assert room.tools()


def test_unmounting_is_for_the_owner_and_for_those_who_rule_the_room(room: Room) -> None:
    """ENS-19, ENS-C5: `mcp.unmount` ends a server and its calls."""
    alice, bob, carol = Person(room, "alice"), Person(room, "bob"), Person(room, "carol")
    bob.announces("fs")
    assert carol.says("mcp.unmount", {"serverId": "fs"}).refusal == "the server fs belongs to another member"
    call_id = carol.calls("fs", "read")
    assert bob.says("mcp.unmount", {"serverId": "fs"}).refusal == ""
    assert carol.result_of(call_id)["error"] == "the server was unmounted"
    bob.announces("fs")
    assert alice.says("mcp.unmount", {"serverId": "fs"}).refusal == ""
    assert bob.says("mcp.unmount", {"serverId": "fs"}).refusal == "the room has no server 'fs'"


def test_an_mcp_client_calls_an_announced_tool_as_one_activation(room: Room) -> None:
    """ENS-8, ENS-11: partials are progress, the result is the ending; the caller has not joined."""
    bob = Person(room, "bob")
    bob.announces("fs")

    def answer(payload: Json) -> Json:
        bob.says(
            "tool.partial", {"callId": payload["callId"], "partial": {"progress": 1, "total": 2, "message": "half"}}
        )
        return {"result": {"content": [{"type": "text", "text": payload["args"]["path"]}]}}

    with serving(bob, answer):
        events = [one for one in room.call("fs", "read", {"path": "/a"}, "zoe", 60) if not isinstance(one, Pause)]
    assert events == [
        Progress(1.0, 2.0, "half"),
        Done({"content": [{"type": "text", "text": "/a"}]}),
    ]
    called = next(one.envelope for one in room.entries() if one.envelope["type"] == "tool.call")
    assert (called["from"], called["payload"]["caller"]) == ("hub", room.pseudonym("zoe"))


def test_closing_the_activation_cancels_the_call_at_its_owner(room: Room) -> None:
    """ENS-11: cancellation reaches the owner, and the log says how the call ended."""
    bob = Person(room, "bob")
    bob.announces("fs")
    events = room.call("fs", "read", {}, "zoe", 60)
    assert isinstance(next(events), Pause)
    events.close()
    call_id = bob.waits_for("tool.call")["payload"]["callId"]
    assert bob.waits_for("tool.cancel")["payload"]["callId"] == call_id
    assert bob.result_of(call_id) == {"callId": call_id, "ok": False, "error": "cancelled: the caller disconnected"}
    assert bob.answers(call_id, "too late").refusal == f"no call {call_id} is open"


@pytest.mark.parametrize(
    ("server", "tool", "sentence"),
    [
        ("none", "read", "unknown server: none; it was not mounted or announced, or its owner has left"),
        ("fs", "none", "unknown tool: none; the server fs is ready and has no such tool"),
    ],
)
def test_an_mcp_client_gets_a_reason_for_a_missing_entry(room: Room, server: str, tool: str, sentence: str) -> None:
    """ENS-19: a failure is an ending with a sentence, and nothing is logged of it."""
    Person(room, "bob").announces("fs")
    before = room.seq
    assert list(room.call(server, tool, {}, "zoe", 60)) == [Failed(sentence)]
    assert room.seq == before


def test_a_failed_result_of_a_tool_is_a_failed_activation_with_its_whole_result(room: Room) -> None:
    """ENS-12: `ok: false` with an MCP result keeps that result."""
    bob = Person(room, "bob")
    bob.announces("fs")
    result = {"content": [{"type": "text", "text": "no such file"}], "isError": True}
    with serving(bob, lambda payload: {"ok": False, "error": "no such file", "result": result}):
        events = [one for one in room.call("fs", "read", {}, "zoe", 60) if not isinstance(one, Pause)]
    assert events == [Failed("no such file", result=result)]


def test_a_room_may_be_closed_to_mcp_clients(room: Room) -> None:
    """ENS-14: the policy says whether who has not joined may call."""
    alice = Person(room, "alice")
    alice.announces("fs")
    alice.says("room.policy", {"policy": {**room.state()["policy"], "gateway": False}})
    assert list(room.call("fs", "read", {}, "zoe", 60)) == [
        Failed("the room's policy closes it to MCP clients that have not joined (gateway)")
    ]
