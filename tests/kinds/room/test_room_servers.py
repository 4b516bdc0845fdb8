"""A room as a server: its tools at /mcp/room.<room>, in every revision, for clients that have not joined it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.activity.records import Filter
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from tests.hubs import MODERN, Hub, modern_request, sse_messages
from tests.rooms.people import NOTES, Person, serving
from tests.waiting import until

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN)
ECHO = {"name": "echo", "description": "Echo a text.", "inputSchema": {"type": "object"}}
SLOW = {"name": "slow", "inputSchema": {"type": "object"}}
SERVER = "room.demo"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One hub with the room demo."""
    hub = Hub(tmp_path_factory.mktemp("hub"))
    rooms_of(hub).create("demo", "local")
    until(lambda: SERVER in {one.name for one in hub.catalogue.all()}, "the room's server")
    yield hub
    hub.close()


def rooms_of(hub: Hub) -> Rooms:
    rooms = hub.app.parts.dispatcher.services.rooms
    assert isinstance(rooms, Rooms)
    return rooms


@pytest.fixture
def room(hub: Hub) -> Room:
    return rooms_of(hub).open("demo")


@contextmanager
def announcer(hub: Hub, room: Room, *tools: Any, server: str = "fs") -> Iterator[Person]:
    """A member whose server is announced and served, and leaves at the end."""
    owner = Person(room, "local")
    owner.announces(server, *(tools or (ECHO, SLOW)))
    until(lambda: f"{server}__echo" in hub.catalogue.find(SERVER).tools, "the announced tools")
    yield owner
    owner.session.leave()
    until(lambda: f"{server}__echo" not in hub.catalogue.find(SERVER).tools, "the end of the announced tools")


@contextmanager
def answering(owner: Person, partials: int = 0) -> Iterator[None]:
    """Answer each call of `echo` with its text, after some partials; calls of `slow` are left open."""

    def serve() -> None:
        for delivery in owner.session.events():
            payload = delivery.envelope["payload"] if delivery is not None else {}
            if delivery is None or delivery.envelope["type"] != "tool.call" or payload["name"] == "slow":
                continue
            for number in range(partials):
                partial = {"progress": number + 1, "total": partials, "message": f"step {number + 1}"}
                owner.says("tool.partial", {"callId": payload["callId"], "partial": partial, "seq": number})
            text = payload.get("args", {}).get("text", "")
            owner.answers(payload["callId"], {"content": [{"type": "text", "text": f"heard {text}"}]})

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    owner.session.leave()
    thread.join()


@pytest.mark.parametrize("revision", REVISIONS)
def test_announced_tools_are_listed_and_called_in_every_revision(hub: Hub, room: Room, revision: str) -> None:
    """ENS-7, ENS-8, ENS-9, ENS-12: names are `<serverId>__<tool>`, the result is the owner's."""
    with announcer(hub, room) as owner, answering(owner):
        listed = (
            hub.modern(SERVER, "tools/list")
            if revision == MODERN
            else hub.legacy(SERVER, "tools/list", version=revision, session=hub.open(SERVER, revision))
        )
        assert [one["name"] for one in listed.result["tools"]] == ["fs__echo", "fs__slow"]
        assert hub.call(SERVER, "fs__echo", {"text": "hello"}, revision).text == "heard hello"


@pytest.mark.parametrize("revision", REVISIONS)
def test_announced_resources_and_prompts_are_served_in_every_revision(hub: Hub, room: Room, revision: str) -> None:
    """ENS-7, ENS-8: a resource keeps its URI; a prompt is `<serverId>__<name>`, with its arguments."""
    said = {"resources": [NOTES], "prompts": [{"name": "review", "arguments": [{"name": "topic", "required": True}]}]}
    session = "" if revision == MODERN else hub.open(SERVER, revision)

    def send_request(method: str, params: Any = None) -> Any:
        if revision == MODERN:
            return hub.modern(SERVER, method, params).result
        return hub.legacy(SERVER, method, params, session, version=revision).result

    def answer(payload: Any) -> Any:
        if payload["method"] == "resources/read":
            return {"result": {"contents": [{"uri": payload["name"], "text": "buy milk"}]}}
        content = {"type": "text", "text": f"Review {payload['args']['topic']}."}
        return {"result": {"messages": [{"role": "user", "content": content}]}}

    owner = Person(room, "local")
    owner.announces("fs", ECHO, **said)
    until(lambda: "fs__review" in hub.catalogue.find(SERVER).prompts, "the announced prompt")
    with serving(owner, answer):
        assert [one["uri"] for one in send_request("resources/list")["resources"]] == [NOTES["uri"]]
        assert [one["name"] for one in send_request("prompts/list")["prompts"]] == ["fs__review"]
        assert send_request("resources/read", {"uri": NOTES["uri"]})["contents"][0]["text"] == "buy milk"
        got = send_request("prompts/get", {"name": "fs__review", "arguments": {"topic": "notes"}})
        assert got["messages"][0]["content"]["text"] == "Review notes."
    until(lambda: not hub.catalogue.find(SERVER).prompts, "the end of the announced prompt")


def test_a_uri_of_two_servers_is_served_for_neither_and_the_page_says_why(hub: Hub, room: Room) -> None:
    """ENS-19: a reader cannot know which of the two it would get."""
    one, two = Person(room, "local"), Person(room, "local")
    one.announces("fs", ECHO, resources=[NOTES])
    two.announces("git", ECHO, resources=[NOTES])
    until(lambda: "git__echo" in hub.catalogue.find(SERVER).tools, "the second server")
    server = hub.catalogue.find(SERVER)
    assert dict(server.resources) == {}
    assert [problem.where for problem in server.problems] == [NOTES["uri"]]
    two.session.leave()
    until(lambda: NOTES["uri"] in hub.catalogue.find(SERVER).resources, "the resource of the server that stays")
    one.session.leave()
    until(lambda: not hub.catalogue.find(SERVER).tools, "the end of the announced tools")


def test_the_aggregate_the_page_and_the_activity_have_the_room_s_tools(hub: Hub, room: Room) -> None:
    """ENS-8: a room's server is a server like any other."""
    with announcer(hub, room) as owner, answering(owner):
        names = [one["name"] for one in hub.modern("", "tools/list").result["tools"]]
        [public] = [name for name in names if "fs__echo" in name]
        assert hub.call("", public, {"text": "all"}, MODERN).text == "heard all"
        page = hub.client.get(f"/mcp/{SERVER}", headers={"Accept": "text/html"}, follow_redirects=True)
        assert page.status_code == 200
        assert "fs__echo" in page.text
        rows = until(lambda: hub.activity.recent(Filter(tool="fs__echo")).records, "an activity record")
        assert {row.server for row in rows} == {SERVER}


def test_partials_of_the_owner_are_progress_of_the_caller(hub: Hub, room: Room) -> None:
    """ENS-11: tool.partial arrives as a progress notification."""
    with announcer(hub, room) as owner, answering(owner, partials=3):
        params = {"name": "fs__echo", "arguments": {"text": "x"}}
        body, headers = modern_request("tools/call", params, meta={"progressToken": "p"})
        answer = hub.send(SERVER, body, headers)
        told = [one["params"] for one in answer.messages if one.get("method") == "notifications/progress"]
        assert [(one["progress"], one["total"], one["message"]) for one in told] == [
            (1, 3, "step 1"),
            (2, 3, "step 2"),
            (3, 3, "step 3"),
        ]


def test_a_cancelled_call_reaches_the_owner(hub: Hub, room: Room) -> None:
    """ENS-9: when the caller goes away, the owner gets tool.cancel and the call ends."""
    with announcer(hub, room) as owner:
        session = hub.open(SERVER)
        answers: list[Any] = []
        call = threading.Thread(
            target=lambda: answers.append(hub.legacy(SERVER, "tools/call", {"name": "fs__slow"}, session, id=77))
        )
        call.start()
        made = owner.waits_for("tool.call")
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77, "reason": "no"}}
        assert hub.send(SERVER, message, {"Mcp-Session-Id": session}).status == 202
        owner.waits_for("tool.cancel", lambda payload: payload["callId"] == made["payload"]["callId"])
        assert owner.result_of(made["payload"]["callId"])["ok"] is False
        call.join()


def test_the_deadline_of_a_call_is_its_ttl_in_the_room(hub: Hub, room: Room) -> None:
    """ENS-17: the owner sees the time that the hub gives the call, and the call ends when it is over."""
    definition = orjson.loads(hub.catalogue.store.blobs.get(hub.catalogue.find(SERVER).definition))
    assert definition["room"] == room.id
    with announcer(hub, room, {**ECHO}, SLOW) as owner:
        thread = threading.Thread(target=lambda: hub.call(SERVER, "fs__slow"), daemon=True)
        thread.start()
        made = owner.waits_for("tool.call")
        assert 0 < made["payload"]["ttlMs"] <= hub.catalogue.find(SERVER).timeout * 1000


def test_calls_end_at_once_when_the_owner_leaves_and_unknown_tools_have_a_sentence(hub: Hub, room: Room) -> None:
    """ENS-19: the end of the owner is an answer, never silence."""
    answers: list[Any] = []
    with announcer(hub, room) as owner:
        thread = threading.Thread(target=lambda: answers.append(hub.call(SERVER, "fs__slow")))
        thread.start()
        owner.waits_for("tool.call")
    thread.join()
    assert answers[0].result["isError"] is True
    assert "left the room" in answers[0].text
    assert "there is no tool 'fs__slow'" in hub.call(SERVER, "fs__slow").text


def test_clients_are_notified_when_the_tools_change(hub: Hub, room: Room) -> None:
    """ENS-6, ENS-8: notifications/tools/list_changed follows an announcement."""
    message, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    stream = hub.stream(SERVER, message, headers)
    read = b""
    while b"acknowledged" not in read:
        read += next(stream)
    with announcer(hub, room):
        while b"notifications/tools/list_changed" not in read:
            read += next(stream)
    stream.close()
    assert sse_messages(read)


def test_a_room_closed_to_mcp_clients_offers_nothing(hub: Hub) -> None:
    """ENS-14: the policy decides whether clients that have not joined see and call tools."""
    room = rooms_of(hub).create("closed", "local", {"policy": {"gateway": False}})
    owner = Person(room, "local")
    owner.announces("fs", ECHO)
    assert [one.name for one in room.tools()] == ["echo"]
    server = until(lambda: next((one for one in hub.catalogue.all() if one.name == "room.closed"), None), "the server")
    assert dict(server.tools) == {}
    changed = {**room.state_now["policy"], "gateway": True}
    owner.says("room.policy", {"policy": changed})
    until(lambda: "fs__echo" in hub.catalogue.find("room.closed").tools, "the tools of the opened room")


def test_names_of_rooms_are_refused_for_other_servers(hub: Hub) -> None:
    """ENS-8: a file cannot stand in for a room's server."""
    (hub.servers / "room.demo.py").write_text("def main(): return 1\n")
    until(lambda: "room.demo.py" in hub.catalogue.refused, "the refusal of the file")
    assert "belong to the hub's rooms" in hub.catalogue.refused["room.demo.py"]
    assert hub.catalogue.find(SERVER).kind == "room"
    (hub.servers / "room.demo.py").unlink()


def test_a_hub_that_starts_again_removes_the_offers_of_lost_sessions(tmp_path: Path) -> None:
    """ENS-16: offers of sessions that are alive in no process end although the room is not opened."""
    first = Hub(tmp_path, store="sqlite")
    owner = Person(rooms_of(first).create("demo", "local"), "local")
    owner.announces("fs", ECHO)
    until(lambda: "fs__echo" in first.catalogue.find(SERVER).tools, "the announced tool")
    # As after a crash: nothing of the first process ends its sessions.
    rooms_of(first)._loop.ending.set()
    rooms_of(first)._open.clear()
    first.close()
    second = Hub(tmp_path, store="sqlite", room_idle=0.5)
    assert "fs__echo" in second.catalogue.find(SERVER).tools
    until(lambda: not second.catalogue.find(SERVER).tools, "the end of the lost session's tools")
    second.close()
