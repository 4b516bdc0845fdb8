"""A member of a room acts beyond its rights: it bypasses approvals, quotas, denials and bans, or speaks for others.

Sources: ACCESS sections 3, 5 and 6; ROOMS section 5; CWE-862 (missing authorization); CWE-345 (data authenticity).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import orjson
import pytest

from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Answer, Hub
from tests.rooms.people import envelope, hello
from tests.waiting import BOUND, until

Headers = dict[str, str]
Json = dict[str, Any]

WIPE: Json = {"name": "wipe", "inputSchema": {"type": "object"}}
PLAN, DIARY = ({"uri": f"docs://{name}", "name": name} for name in ("plan", "diary"))
SCOLD: Json = {"name": "scold"}
_NUMBERS = count()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = team_hub(tmp_path_factory.mktemp("misused"))
    yield hub
    hub.app.parts.dispatcher.services.rooms.close()
    hub.close()


@pytest.fixture(scope="module")
def keys(hub: Hub) -> dict[str, Headers]:
    return {name: new_key(hub, name) for name in ("ann", "ben")}


class Member:
    """A member that posts its envelopes."""

    def __init__(self, hub: Hub, room: str, key: Headers, **said: Any) -> None:
        self._hub, self._room = hub, room
        self.joined = self._post({"type": "hello", "payload": hello(**said)}, key)
        self._headers = key | {"Enso-Session": self.joined.headers.get("Enso-Session", "")}

    @property
    def session(self) -> str:
        """The id of its session."""
        return str(self._headers["Enso-Session"])

    @property
    def name(self) -> str:
        """Its name in the room."""
        return str(self.joined.json["answers"][0]["payload"]["member"])

    def says(self, type: str, payload: Json, **more: Any) -> str:
        """Send an envelope; return the refusal, empty for an accepted one."""
        answer = self._post(envelope(type, payload, **more), self._headers)
        return str(answer.json.get("refusal", "") or answer.json.get("error", ""))

    def calls(self, name: str, call_id: str = "", **more: Any) -> str:
        """Call a tool of the server `fs`; return the refusal, empty for an accepted one."""
        payload = {"callId": call_id or f"call {next(_NUMBERS)}", "serverId": "fs", "name": name, "args": {}}
        return self.says("tool.call", payload | more)

    def _post(self, value: Json, headers: Headers) -> Any:
        return self._hub.client.post(f"/rooms/{self._room}", json=value, headers=headers)


def make_room(hub: Hub, keys: dict[str, Headers]) -> tuple[str, Member]:
    """Make a room of ann, and a session of hers whose server everybody may call."""
    name = f"room{next(_NUMBERS)}"
    assert hub.client.put(f"/rooms/{name}", json={}, headers=keys["ann"]).status_code == 201
    ann = Member(hub, name, keys["ann"])
    announced = {"serverId": "fs", "tools": [WIPE], "resources": [PLAN, DIARY], "prompts": [SCOLD]}
    assert ann.says("mcp.announce", announced) == ""
    return name, ann


def wait_for_tools(hub: Hub, room: str) -> None:
    """Wait until the hub serves the tool of a room to MCP clients."""
    served = hub.catalogue.find_any
    until(lambda: (one := served(f"room.{room}")) is not None and "fs__wipe" in one.tools, "the room serves its tool")


def rights_of_ben(**more: Any) -> Json:
    """Grants under which ben uses rooms as `more` says."""
    everything = {"may": ["see", "call", "read"], "on": ["room.*"]}
    return {"grants": [{"to": ["key:ann"], **everything}, {"to": ["key:ben"], **everything, **more}]}


def read_live(hub: Hub, room: str) -> list[Json]:
    """The envelopes that every member of a room gets now, oldest first."""
    feed: Any = hub.app.parts.dispatcher.services.rooms.open(room).core.feed
    feed.pump()
    first = feed.index_after(feed.floor)
    return [one.envelope for one in feed.read(first, 1000) if one.to is None]


def test_a_call_that_needs_an_approval_is_refused_inside_a_room(hub: Hub, keys: dict[str, Headers]) -> None:
    room, _ = make_room(hub, keys)
    ben = Member(hub, room, keys["ben"])
    set_grants(hub, rights_of_ben(call="approve"))
    refusal = ben.calls("wipe")
    assert "needs an approval" in refusal and f"/mcp/room.{room}" in refusal
    set_grants(hub, rights_of_ben())
    assert ben.calls("wipe") == ""


def test_calls_inside_a_room_count_for_the_quotas_of_the_caller(hub: Hub, keys: dict[str, Headers]) -> None:
    room, ann = make_room(hub, keys)
    set_grants(hub, rights_of_ben() | {"quotas": [{"to": ["key:ben"], "calls_in_flight": 2}]})
    # Further sessions are the same principal.
    assert [Member(hub, room, keys["ben"]).calls("wipe", f"flying {number}") for number in range(2)] == ["", ""]
    ben = Member(hub, room, keys["ben"])
    assert "too many calls" in ben.calls("wipe")
    assert ann.says("tool.result", {"callId": "flying 0", "ok": True, "result": {}}) == ""
    assert ben.calls("wipe", "flying 2") == ""
    assert "too many calls" in ben.calls("wipe")
    for number in (1, 2):
        assert ann.says("tool.result", {"callId": f"flying {number}", "ok": True, "result": {}}) == ""
    set_grants(hub, rights_of_ben() | {"quotas": [{"to": ["key:ben"], "calls_per_minute": 3}]})
    refusals = [ben.calls("wipe", f"fast {number}") for number in range(5)]
    assert refusals[:1] == [""] and "too many calls" in refusals[-1]
    set_grants(hub, rights_of_ben())


def test_a_denied_resource_and_prompt_are_not_used_inside_a_room(hub: Hub, keys: dict[str, Headers]) -> None:
    room, _ = make_room(hub, keys)
    denials = [{"to": ["key:ben"], "on": [f"room.{room}.docs://diary", f"room.{room}.fs__scold"]}]
    set_grants(hub, rights_of_ben() | {"denials": denials})
    ben = Member(hub, room, keys["ben"])
    assert ben.calls("docs://plan", method="resources/read") == ""
    for name, method, kind in (
        ("docs://diary", "resources/read", "resource"),
        ("scold", "prompts/get", "prompt"),
    ):
        assert (
            ben.calls(name, method=method) == f"unknown {kind}: {name}; the server fs is ready and has no such {kind}"
        )
    wrong: list[Json] = [{"serverId": ["fs"]}, {"method": []}, {"method": {}}, {"name": {}}]
    for odd in wrong:
        payload = {"callId": "odd", "serverId": "fs", "name": "wipe", "args": {}}
        assert "expected" in ben.says("tool.call", payload | odd)
    set_grants(hub, rights_of_ben())


def test_a_member_who_may_only_read_asks_for_nothing_inside_a_room(hub: Hub, keys: dict[str, Headers]) -> None:
    room, _ = make_room(hub, keys)
    grants = rights_of_ben()["grants"]
    set_grants(hub, {"grants": [grants[0], {"to": ["key:ben"], "may": ["see", "read"], "on": ["room.*"]}]})
    ben = Member(hub, room, keys["ben"])
    # The log keeps a request with everything in it, so a request is a way to speak.
    for name, method in (("docs://plan", "resources/read"), ("scold", "prompts/get")):
        assert ben.calls(name, method=method, args={"said": "anything"}) == "this participant may only read the room"
    set_grants(hub, rights_of_ben())


def test_a_refused_envelope_of_one_member_does_not_end_the_call_of_another(hub: Hub, keys: dict[str, Headers]) -> None:
    room, ann = make_room(hub, keys)
    wait_for_tools(hub, room)
    answers: list[Answer] = []
    called = {"name": "fs__wipe", "arguments": {}}
    caller = threading.Thread(
        target=lambda: answers.append(hub.modern(f"room.{room}", "tools/call", called, headers=keys["ann"]))
    )
    caller.start()
    state = hub.app.parts.dispatcher.services.rooms.open(room).state
    id = until(lambda: next(iter(state()["calls"]), None), "the call is open")
    # The id of a call is in the log, which every member reads.
    ben = Member(hub, room, keys["ben"])
    assert "is open already" in ben.calls("wipe", id)
    assert ann.says("tool.result", {"callId": id, "ok": True, "result": {"content": []}}) == ""
    caller.join(BOUND)
    assert not answers[0].result.get("isError"), answers[0]


def test_a_member_sends_no_type_of_the_hub_as_a_stream(hub: Hub, keys: dict[str, Headers]) -> None:
    room, ann = make_room(hub, keys)
    ben = Member(hub, room, keys["ben"])
    frame = {"streamId": "x", "seq": 0, "serverId": "fs", "tools": [WIPE]}
    for type in ("tool.advertise", "presence.join", "room.withheld", "guardrail.violation"):
        assert ben.says(type, frame, kind="stream") == f"only the hub sends {type}"
    assert ben.says("voice.frame", frame, kind="stream") == ""
    # The text of a call is a stream with the id of the call.
    assert ann.calls("wipe", "mine") == ""
    forged = {"streamId": "mine", "seq": 0, "data": "forged"}
    for kind in ("stream", "event"):
        assert "the call of another" in ben.says("tool.stream", forged, kind=kind)
    senders = {one["from"] for one in read_live(hub, room) if one["payload"].get("streamId") == "mine"}
    assert senders <= {"hub"}


def test_a_member_takes_no_server_of_another_and_ends_no_announcer(hub: Hub, keys: dict[str, Headers]) -> None:
    """34.9."""
    room, ann = make_room(hub, keys)
    ben = Member(hub, room, keys["ben"])
    announced = {"serverId": "fs", "tools": [WIPE], "replaces": [ann.session]}
    assert ben.says("mcp.announce", announced) == "the server fs belongs to another member; choose another serverId"
    replaced = {"serverId": "fs", "session": ann.session, "by": ben.session}
    assert ben.says("mcp.replaced", replaced) == "only the hub sends mcp.replaced"
    assert ben.calls("wipe", "for ann") == ""
    # The capability `mcp.server:fs` alone makes no owner: ben's session does not get the call, and cannot answer it.
    assert "of another session" in ben.says("tool.result", {"callId": "for ann", "ok": True, "result": {}})
    assert ann.says("tool.result", {"callId": "for ann", "ok": True, "result": {}}) == ""
    types = [one["type"] for one in read_live(hub, room)]
    assert types.count("mcp.announce") == 1 and "mcp.replaced" not in types


def test_a_member_uses_nothing_that_the_access_list_hides(hub: Hub, keys: dict[str, Headers]) -> None:
    """34.10, 34.11: not by a name from the log, not as an MCP client, and not as a host or a mounter."""
    room, ann = make_room(hub, keys)
    wait_for_tools(hub, room)
    ben = Member(hub, room, keys["ben"])
    policy = hub.app.parts.dispatcher.services.rooms.open(room).state()["policy"]
    rules = [{"roles": ["own*"]}, {"roles": ["*"], "servers": ["fs"], "tools": [], "resources": ["plan"]}]
    assert ann.says("room.policy", {"policy": {**policy, "acl": rules}}) == ""
    for name, method in (("wipe", "tools/call"), ("docs://diary", "resources/read"), ("scold", "prompts/get")):
        assert "and has no such" in ben.calls(name, method=method)
    assert ben.calls("docs://plan", "to read", method="resources/read") == ""
    assert "no power to policy" in ben.says("room.policy", {"policy": policy})
    assert "no rule that admits the role human" in ben.says("mcp.announce", {"serverId": "git", "tools": [WIPE]})
    mounted = {"serverId": "git", "transport": {"kind": "http-stream", "url": "http://192.0.2.1/mcp"}}
    assert "no rule that admits the role human" in ben.says("mcp.mount", mounted)
    server = f"room.{room}"
    called = hub.modern(server, "tools/call", {"name": "fs__wipe", "arguments": {}}, headers=keys["ben"])
    assert called.result["isError"] and "there is no tool" in called.text
    assert hub.modern(server, "resources/read", {"uri": "docs://diary"}, headers=keys["ben"]).status != 200
    for kind, names in (("tools", []), ("resources", ["plan"]), ("prompts", [])):
        listed = hub.modern(server, f"{kind}/list", headers=keys["ben"]).result[kind]
        assert [one["name"] for one in listed] == names
    log = hub.client.get(f"/rooms/{room}/log", headers=keys["ben"]).get_data()
    assert b'"inputSchema"' not in log
    assert set(hub.app.parts.dispatcher.services.rooms.open(room).state()["calls"]) == {"to read"}


def test_a_member_ends_no_session_by_an_envelope_that_the_hub_cannot_read(hub: Hub, keys: dict[str, Headers]) -> None:
    """34.13: neither its own, with what it shares, nor that of another, and nothing of it is logged."""
    room, ann = make_room(hub, keys)
    ben = Member(hub, room, keys["ben"])
    state = hub.app.parts.dispatcher.services.rooms.open(room).state
    before = set(state()["sessions"])
    assert ann.calls("wipe", "open") == ""
    seq = hub.app.parts.dispatcher.services.rooms.open(room).seq
    for type, payload in (
        ("tool.result", {"callId": {}, "ok": True}),
        ("tool.partial", {"callId": []}),
        ("tool.cancel", {"callId": ["open"]}),
        ("mcp.unmount", {"serverId": ["fs"]}),
        ("mcp.announce", {"serverId": {}, "tools": [WIPE]}),
        ("mcp.mount", {"serverId": [], "transport": {"kind": []}}),
        ("caps.update", {"revoke": {"tool.call": 1}}),
    ):
        refusal = ben.says(type, payload)
        assert refusal and "internal error" not in refusal, type
    assert set(state()["sessions"]) == before and "open" in state()["calls"] and "fs" in state()["servers"]
    assert hub.app.parts.dispatcher.services.rooms.open(room).seq == seq


def test_a_member_ends_no_stream_of_a_call_that_is_not_its_own(hub: Hub, keys: dict[str, Headers]) -> None:
    """34.12: a result of another is refused before the stream of the text ends."""
    room, ann = make_room(hub, keys)
    ben = Member(hub, room, keys["ben"])
    assert ben.calls("wipe", "told") == ""
    partial = {"callId": "told", "partial": {"type": "text", "text": "one "}}
    assert ann.says("tool.partial", partial) == ""
    assert "of another session" in ben.says("tool.result", {"callId": "told", "ok": True, "result": "forged"})
    assert ann.says("tool.partial", partial | {"partial": "two"}) == ""
    assert ann.says("tool.result", {"callId": "told", "ok": True, "result": "one two"}) == ""
    frames = [one["payload"] for one in read_live(hub, room) if one["payload"].get("streamId") == "told"]
    assert [(one["data"], one.get("eof", False)) for one in frames] == [("one ", False), ("two", False), ("", True)]


@pytest.mark.parametrize("named", ["by its name", "by its principal"])
def test_a_banned_member_is_out_under_every_name(hub: Hub, keys: dict[str, Headers], named: str) -> None:
    room, ann = make_room(hub, keys)
    profiles = ("persistent", "pseudonymous", "ghost")
    sessions = [Member(hub, room, keys["ben"], privacy={"profile": profile}) for profile in profiles]
    assert [one.says("content.post", {"text": "hi"}) for one in sessions] == ["", "", ""]
    who = {"member": sessions[0].name} if named == "by its name" else {"principal": "key:ben"}
    assert ann.says("room.member", {**who, "membership": "banned"}) == ""
    for one in sessions:
        assert one.says("content.post", {"text": "still here"}) != ""
    for profile in profiles:
        back = Member(hub, room, keys["ben"], privacy={"profile": profile}).joined
        assert back.status_code == 403 and b"banned" in back.data
    wait_for_tools(hub, room)
    called = hub.modern(f"room.{room}", "tools/call", {"name": "fs__wipe", "arguments": {}}, headers=keys["ben"])
    assert called.result["isError"] and "there is no tool 'fs__wipe'" in called.text
    assert hub.modern(f"room.{room}", "tools/list", headers=keys["ben"]).result["tools"] == []
    assert hub.client.get(f"/rooms/{room}.json", headers=keys["ben"]).status_code == 403
    lines = hub.client.get(f"/rooms/{room}/log", headers=keys["ben"]).get_data().splitlines()
    assert "withheld" in orjson.loads(lines[1]) and len(lines) == 2
    assert hub.client.post(f"/rooms/{room}/fork", json={"seq": 1, "name": "x"}, headers=keys["ben"]).status_code == 403
    assert ann.says("room.member", {**who, "membership": "left"}) == ""
    assert Member(hub, room, keys["ben"]).joined.status_code == 200


def test_what_is_hidden_in_a_room_is_refused_like_what_is_not_there(hub: Hub, keys: dict[str, Headers]) -> None:
    """Issue 50, item 21: a hidden server had words of its own, so that a member without rights knew of it."""
    room, ann = make_room(hub, keys)
    assert ann.says("mcp.announce", {"serverId": "git", "tools": [WIPE, {**WIPE, "name": "sweep"}]}) == ""
    hidden = [f"room.{room}.fs__*", f"room.{room}.docs://*", f"room.{room}.git__wipe"]
    set_grants(hub, rights_of_ben() | {"denials": [{"to": ["key:ben"], "on": hidden}]})
    ben = Member(hub, room, keys["ben"])

    def refused(server: str, name: str, **more: Any) -> str:
        said = ben.calls(name, "one call", **{"serverId": server, **more})
        return said.replace(repr(name), "NAME").replace(name, "NAME").replace(server, "SERVER")

    calls: list[Json] = [
        {},
        {"method": "resources/read"},
        {"args": []},
        {"ttlMs": 0},
        {"provider": "x"},
        {"method": "x"},
    ]
    for more in calls:
        there = refused("fs", "docs://plan" if more.get("method") == "resources/read" else "wipe", **more)
        assert there == refused("zz", "docs://none" if more.get("method") == "resources/read" else "none", **more)
    assert refused("fs", "wipe").startswith("unknown server: SERVER")
    assert refused("git", "wipe") == refused("git", "none")
    assert refused("git", "none").startswith("unknown tool: NAME; the server SERVER is ready")
    assert ben.calls("sweep", serverId="git") == ""
