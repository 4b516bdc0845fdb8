"""Rooms of a shared hub: grants decide who gets in, who speaks, and which tools of a room a participant calls.

Sources: ACCESS section 3; issue 16 item 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from patchbay.rooms.folding.rights import Decision, decide
from patchbay.rooms.record.envelope import HUB
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.rooms.people import call, envelope
from tests.waiting import until

Headers = dict[str, str]
HELLO = {"type": "hello", "payload": {"proto": "ENSO-1", "caps": ["tool.call", "can.read"], "agent": {"name": "t"}}}
GRANTS = {
    "grants": [
        {"to": ["key:ann"], "may": ["see", "call", "read"], "on": ["room.*"]},
        {"to": ["key:reader"], "may": ["read"], "on": ["room.demo"]},
        {"to": ["key:other"], "may": ["read", "call"], "on": ["room.elsewhere"]},
    ]
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = team_hub(tmp_path_factory.mktemp("rooms"))
    set_grants(hub, GRANTS)
    yield hub
    hub.app.parts.dispatcher.services.rooms.close()
    hub.close()


@pytest.fixture(scope="module")
def people(hub: Hub) -> dict[str, Headers]:
    found = {name: new_key(hub, name) for name in ("ann", "reader", "other")}
    assert hub.client.put("/rooms/demo", json={}, headers=found["ann"]).status_code == 201
    return found


def post(hub: Hub, room: str, value: Any, headers: Headers) -> Any:
    return hub.client.post(f"/rooms/{room}", json=value, headers=headers)


def test_a_room_that_may_not_be_read_answers_as_one_that_does_not_exist(hub: Hub, people: dict[str, Headers]) -> None:
    other = people["other"]
    for path in ("/rooms/{}", "/rooms/{}.json", "/rooms/{}/log", "/rooms/{}/events", "/rooms/{}/changes"):
        denied, missing = (hub.client.get(path.format(name), headers=other) for name in ("demo", "absent"))
        assert denied.status_code == missing.status_code == 404
        assert denied.text.replace("demo", "absent") == missing.text
    denied, missing = (post(hub, name, HELLO, other) for name in ("demo", "absent"))
    assert denied.status_code == missing.status_code == 404
    assert denied.text.replace("demo", "absent") == missing.text
    assert orjson.loads(hub.client.get("/rooms.json", headers=other).get_data())["rooms"] == []
    assert hub.modern("room.demo", "tools/list", headers=other).status == 404
    assert hub.client.put("/rooms/mine", json={}, headers=other).status_code == 403
    assert hub.client.post("/rooms/demo/fork", json={"seq": 1, "name": "elsewhere"}, headers=other).status_code == 404
    # A room is not found by its id either.
    id = hub.app.parts.dispatcher.services.rooms.open("demo").id
    assert post(hub, id, HELLO, other).status_code == 404


def test_a_stranger_gets_into_no_room(hub: Hub, people: dict[str, Headers]) -> None:
    assert post(hub, "demo", HELLO, {}).status_code == 401
    assert (
        hub.client.get("/rooms/demo/ws", headers={"Upgrade": "websocket", "Connection": "Upgrade"}).status_code == 401
    )
    assert hub.client.get("/ws", headers={"Upgrade": "websocket", "Connection": "Upgrade"}).status_code == 401


def test_a_reader_reads_and_says_nothing(hub: Hub, people: dict[str, Headers]) -> None:
    joined = post(hub, "demo", HELLO, people["reader"])
    session = people["reader"] | {"Enso-Session": joined.headers["Enso-Session"]}
    refused = post(hub, "demo", envelope("content.post", {"text": "hi"}), session)
    assert refused.status_code == 403 and "may only read" in refused.json["refusal"]
    called = post(hub, "demo", call("calc", "add"), session)
    assert called.status_code == 403 and "unknown server: calc" in called.json["refusal"]
    spoken = people["ann"] | {"Enso-Session": post(hub, "demo", HELLO, people["ann"]).headers["Enso-Session"]}
    assert post(hub, "demo", envelope("content.post", {"text": "hello"}), spoken).status_code == 200
    lines = hub.client.get("/rooms/demo/log", headers=people["reader"]).get_data().splitlines()
    assert any(b"content.post" in line for line in lines)
    assert (
        post(
            hub,
            "demo",
            envelope("content.post", {"text": "x"}),
            people["ann"] | {"Enso-Session": session["Enso-Session"]},
        ).status_code
        == 403
    )


def test_a_session_ends_when_its_grant_or_its_key_ends(hub: Hub, people: dict[str, Headers]) -> None:
    room = hub.app.parts.dispatcher.services.rooms.open("demo")
    leaving_member = new_key(hub, "leaver")
    set_grants(
        hub, {"grants": [*GRANTS["grants"], {"to": ["key:leaver"], "may": ["read", "call"], "on": ["room.demo"]}]}
    )
    one = post(hub, "demo", HELLO, leaving_member).headers["Enso-Session"]
    two = post(hub, "demo", HELLO, people["reader"]).headers["Enso-Session"]
    assert {one, two} <= room.state()["sessions"].keys()
    set_grants(hub, {"grants": [row for row in GRANTS["grants"] if row["to"] != ["key:reader"]]})
    until(lambda: two not in room.state()["sessions"], "the reader's session ends with its grant")
    set_grants(hub, None)
    three = post(hub, "demo", HELLO, leaving_member).headers["Enso-Session"]
    hub.app.parts.keys.revoke("leaver")
    until(lambda: three not in room.state()["sessions"], "the session ends with its key")
    parts = [line for line in room.lines() if b"presence.part" in line]
    assert any(b"no longer lets" in orjson.dumps(orjson.loads(line)) for line in parts)
    set_grants(hub, GRANTS)


def test_a_banned_caller_uses_no_tool_of_a_public_room_through_the_hub() -> None:
    policy = {"join": "public", "gateway": True, "acl": []}
    state = {"members": {"ann": {"membership": "left"}, "ben": {"membership": "banned"}}, "policy": policy}
    assert decide(state, HUB, "call", "tools", "ann")
    assert decide(state, HUB, "call", "tools", "ben") == Decision(False, "the room has banned this caller")
