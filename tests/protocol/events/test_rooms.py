"""The events of a room: what was said there, for those whom the room shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub, modern_request
from tests.protocol.events.test_emitting import messages_of
from tests.rooms.people import LIST, Person
from tests.waiting import until

Headers = dict[str, str]
GRANTS = {"grants": [{"to": ["key:ann", "key:bob"], "may": ["see", "call", "read"], "on": ["room.*"]}]}
SERVER = "room.past"


@pytest.fixture
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    one = team_hub(tmp_path_factory.mktemp("rooms"))
    set_grants(one, GRANTS)
    yield one
    one.app.parts.dispatcher.services.rooms.close()
    one.close()


def opened(hub: Hub, policy: dict[str, Any]) -> tuple[Any, Person]:
    """A room of alice with a tool, which its MCP server needs."""
    room = hub.app.parts.dispatcher.services.rooms.create("past", "alice", {"policy": policy})
    alice = Person(room, "alice")
    alice.says("tool.advertise", {"serverId": "fs", "provider": "mcp", "tools": [LIST]})
    until(lambda: hub.modern(SERVER, "events/list", headers=operator(hub)).status == 200, "the server of the room")
    return room, alice


def operator(hub: Hub) -> Headers:
    return {"Authorization": f"Bearer {hub.token}"}


def poll(hub: Hub, headers: Headers, cursor: str | None, **more: Any) -> Any:
    return hub.modern(SERVER, "events/poll", {"name": "message", "cursor": cursor, **more}, headers=headers).result


def texts(found: Any) -> list[str]:
    return [one["data"]["payload"]["text"] for one in found["events"] if one["data"]["type"] == "chat.msg"]


@pytest.mark.parametrize(
    ("history", "expected"), [("all", ["one", "two", "three"]), ("invited", ["two", "three"]), ("joined", ["three"])]
)
def test_a_reader_gets_the_messages_that_the_room_shows_it(hub: Hub, history: str, expected: list[str]) -> None:
    """37.1"""
    bob = new_key(hub, "bob")
    room, alice = opened(hub, {"history": history})
    begin = poll(hub, operator(hub), None)["cursor"]
    alice.says("chat.msg", {"text": "one"})
    alice.says("room.member", {"principal": "key:bob", "membership": "invited"})
    alice.says("chat.msg", {"text": "two"})
    Person(room, "key:bob")
    alice.says("chat.msg", {"text": "three"})
    assert texts(poll(hub, operator(hub), begin)) == ["one", "two", "three"]
    assert texts(poll(hub, bob, begin)) == expected
    assert texts(poll(hub, bob, begin, arguments={"type": "room.member"})) == []


def test_a_reader_who_is_no_member_or_banned_gets_nothing(hub: Hub) -> None:
    """37.1"""
    ann, bob = new_key(hub, "ann"), new_key(hub, "bob")
    room, alice = opened(hub, {"history": "all", "join": "invite"})
    begin = poll(hub, operator(hub), None)["cursor"]
    alice.says("room.member", {"principal": "key:bob", "membership": "invited"})
    Person(room, "key:bob")
    alice.says("chat.msg", {"text": "one"})
    assert texts(poll(hub, bob, begin)) == ["one"]
    assert poll(hub, ann, begin)["events"] == []
    alice.says("room.member", {"principal": "key:bob", "membership": "banned"})
    answer = hub.modern(SERVER, "events/poll", {"name": "message", "cursor": begin}, headers=bob)
    assert "error" in answer.last or answer.result["events"] == []


def test_a_stream_tells_of_a_message_at_once_and_a_cursor_replays(hub: Hub) -> None:
    """37.1"""
    _, alice = opened(hub, {"history": "all"})
    body, headers = modern_request("events/stream", {"name": "message"}, headers=operator(hub))
    stream = messages_of(hub.stream(SERVER, body, headers))
    begin = next(stream)["params"]["cursor"]
    alice.says("chat.msg", {"text": "hello"})
    told = next(one for one in stream if one["method"] == "notifications/events/event")
    assert told["params"]["data"]["payload"] == {"text": "hello"}
    stream.close()
    alice.says("chat.msg", {"text": "again"})
    assert texts(poll(hub, operator(hub), begin)) == ["hello", "again"]
    assert texts(poll(hub, operator(hub), told["params"]["cursor"])) == ["again"]
