"""The access list of a room at its MCP server: what a caller lists, reads, gets, completes and calls, as of now."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub, modern_request
from tests.rooms.people import Person
from tests.waiting import until

Json = dict[str, Any]
Headers = dict[str, str]
PLAN, DIARY = ({"uri": f"docs://{name}", "name": name} for name in ("plan", "diary"))
READ, WIPE = ({"name": name, "inputSchema": {"type": "object"}} for name in ("read", "wipe"))
SUM, SCOLD = ({"name": name, "arguments": [{"name": "topic"}]} for name in ("sum", "scold"))
EVERYTHING = {"fs__read", "fs__wipe", "fs__sum", "fs__scold", "docs://plan", "docs://diary"}
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = team_hub(tmp_path_factory.mktemp("limited"))
    set_grants(hub, {"grants": [{"to": ["*"], "may": ["see", "call", "read"], "on": ["room.*"]}]})
    yield hub
    rooms_of(hub).close()
    hub.close()


@pytest.fixture(scope="module")
def keys(hub: Hub) -> dict[str, Headers]:
    return {name: new_key(hub, name) for name in ("ann", "ben")}


def rooms_of(hub: Hub) -> Rooms:
    rooms = hub.app.parts.dispatcher.services.rooms
    assert isinstance(rooms, Rooms)
    return rooms


@pytest.fixture
def owner(hub: Hub) -> Iterator[Person]:
    """Ann in a room of her own, who shares a server."""
    room = rooms_of(hub).create(f"limited{next(_NUMBERS)}", "key:ann")
    made = Person(room, "key:ann")
    made.announces("fs", READ, WIPE, resources=[PLAN, DIARY], prompts=[SUM, SCOLD])
    name = f"room.{room.name}"
    until(lambda: name in {one.name for one in hub.catalogue.all()} and hub.catalogue.find(name).tools, "the tools")
    yield made
    made.session.leave()


def limit(owner: Person, *rules: Json, **more: Any) -> None:
    """Change the policy of the room."""
    policy = {**owner.room.state()["policy"], "acl": list(rules), **more}
    assert owner.says("room.policy", {"policy": policy}).refusal == ""


def listed(hub: Hub, room: Room, key: Headers) -> set[str]:
    """The names and URIs that a caller lists at the MCP server of a room."""
    found: set[str] = set()
    for kind, field in (("tools", "name"), ("resources", "uri"), ("prompts", "name")):
        answer = hub.modern(f"room.{room.name}", f"{kind}/list", headers=key)
        found |= {one[field] for one in answer.result[kind]}
    return found


def test_a_tightened_list_counts_for_every_request_at_once(hub: Hub, keys: dict[str, Headers], owner: Person) -> None:
    """34.10: no list is older than the policy, and what is not listed cannot be read, got, completed or called."""
    room, ben = owner.room, keys["ben"]
    assert listed(hub, room, ben) == EVERYTHING
    limit(owner, {"tools": ["read", "sum"], "resources": ["plan"]})
    assert listed(hub, room, ben) == {"fs__read", "fs__sum", "docs://plan"}
    server = f"room.{room.name}"
    called = hub.modern(server, "tools/call", {"name": "fs__wipe", "arguments": {}}, headers=ben)
    missing = hub.modern(server, "tools/call", {"name": "fs__none", "arguments": {}}, headers=ben)
    assert called.result["isError"] and "there is no tool 'fs__wipe'" in called.text
    assert missing.result["isError"] and "there is no tool 'fs__none'" in missing.text
    for method, params in (
        ("resources/read", {"uri": "docs://diary"}),
        ("prompts/get", {"name": "fs__scold"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "fs__scold"}, "argument": {"name": "topic", "value": ""}},
        ),
    ):
        hidden = hub.modern(server, method, params, headers=ben)
        unknown = for_nothing(params)
        other = hub.modern(server, method, unknown, headers=ben)
        text = hidden.error["message"].replace("diary", "none").replace("scold", "none")
        assert text == other.error["message"], method
    assert room.state()["calls"] == {}


def for_nothing(params: Json) -> Json:
    """The same request for something that does not exist."""
    found = {key: for_nothing(value) if isinstance(value, dict) else value for key, value in params.items()}
    names = {"docs://diary": "docs://none", "fs__scold": "fs__none"}
    return {key: names.get(value, value) if isinstance(value, str) else value for key, value in found.items()}


def test_callers_with_the_same_grants_see_what_their_roles_show(
    hub: Hub, keys: dict[str, Headers], owner: Person
) -> None:
    """34.10, 34.11: the creator is an owner, another caller has the role human."""
    room = owner.room
    limit(owner, {"roles": ["owner"], "tools": ["wipe"], "resources": ["*"]}, {"roles": ["h*"], "resources": []})
    assert listed(hub, room, keys["ann"]) == {"fs__wipe", "docs://plan", "docs://diary"}
    assert listed(hub, room, keys["ben"]) == {"fs__read", "fs__wipe", "fs__sum", "fs__scold"}
    limit(owner, {"members": [room.pseudonym("key:ben")], "tools": ["read"], "resources": []})
    assert (listed(hub, room, keys["ann"]), listed(hub, room, keys["ben"])) == (set(), {"fs__read"})
    limit(owner, {"roles": ["owner"]})
    assert listed(hub, room, keys["ben"]) == set()
    until(lambda: listed(hub, room, keys["ann"]) == EVERYTHING, "what a wider list shows")
    limit(owner)
    until(lambda: listed(hub, room, keys["ben"]) == EVERYTHING, "everything, for all")


def test_a_caller_that_may_call_nothing_lists_nothing(hub: Hub, keys: dict[str, Headers], owner: Person) -> None:
    """34.10: neither one that is banned nor one that is not invited."""
    room = owner.room
    limit(owner, join="invite")
    assert (listed(hub, room, keys["ann"]), listed(hub, room, keys["ben"])) == (EVERYTHING, set())
    owner.says("room.member", {"principal": "key:ben", "membership": "invited"})
    assert listed(hub, room, keys["ben"]) == EVERYTHING
    limit(owner, join="public")
    owner.says("room.member", {"principal": "key:ben", "membership": "banned"})
    until(lambda: listed(hub, room, keys["ben"]) == set(), "the ban")
    assert listed(hub, room, keys["ann"]) == EVERYTHING


def test_the_list_of_all_servers_has_the_same_entries(hub: Hub, keys: dict[str, Headers], owner: Person) -> None:
    """34.10: `/mcp` shows of a room what its own server shows."""
    limit(owner, {"roles": ["owner"], "tools": ["wipe"]})
    prefix = f"room_{owner.room.name}__fs__"
    for name, wanted in (("ann", ["wipe"]), ("ben", [])):
        tools = hub.modern("", "tools/list", headers=keys[name]).result["tools"]
        found = [one["name"].removeprefix(prefix) for one in tools if one["name"].startswith(prefix)]
        assert [one.partition("_")[0] for one in found] == wanted


def test_a_change_of_the_policy_is_told_to_clients(hub: Hub, keys: dict[str, Headers], owner: Person) -> None:
    """34.10: list_changed for tools, resources and prompts, also when what somebody could see stays the same."""
    limit(owner, {"roles": ["*"]})
    wanted = {f"{kind}ListChanged": True for kind in ("tools", "resources", "prompts")}
    message, headers = modern_request("subscriptions/listen", {"notifications": wanted})
    stream = hub.stream(f"room.{owner.room.name}", message, headers | keys["ben"])
    read = b""
    while b"acknowledged" not in read:
        read += next(stream)
    limit(owner, {"roles": ["own*"]})
    while not all(f"notifications/{kind}/list_changed".encode() in read for kind in ("tools", "resources", "prompts")):
        read += next(stream)
    stream.close()
    assert listed(hub, owner.room, keys["ben"]) == set()


def test_a_room_with_an_access_list_hides_nothing_else_of_the_hub(tmp_path: Any) -> None:
    """34.10: in personal mode the whole configuration stays visible."""
    hub = Hub(tmp_path)
    owner = Person(rooms_of(hub).create("demo", "local", {"policy": {"acl": [{"tools": ["read"]}]}}), "local")
    owner.announces("fs", READ, WIPE)
    until(lambda: "room.demo" in {one.name for one in hub.catalogue.all()}, "the server of the room")
    until(lambda: hub.catalogue.find("room.demo").tools, "its tool")
    for path in ("/history", "/variables.json", "/rooms/demo.json"):
        assert hub.client.get(path).status_code == 200
    shown = orjson.loads(hub.client.get("/rooms/demo.json").get_data())["tools"]
    assert [one["name"] for one in shown] == ["fs__read"]
    assert [one["name"] for one in hub.modern("room.demo", "tools/list").result["tools"]] == ["fs__read"]
    owner.session.leave()
    rooms_of(hub).close()
    hub.close()
