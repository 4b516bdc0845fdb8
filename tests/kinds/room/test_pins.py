"""Pins of what the members of rooms announce: a changed tool waits for approval before MCP clients see it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.pins.approval import approve
from patchbay.pins.documents import Changes
from patchbay.pins.records import load_pins
from patchbay.rooms.bounds import room_changes
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from tests.hubs import MODERN, Hub
from tests.pins.independent_digests import digest_of
from tests.pins.listing import tool
from tests.rooms.people import Person
from tests.waiting import until

SERVER = "room.demo"
CHANGED = tool(description="Delete a folder.")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub that holds what members of its room demo change."""
    hub = Hub(tmp_path, room_changes="hold")
    rooms_of(hub).create("demo", "local")
    until(lambda: SERVER in {one.name for one in hub.catalogue.all()}, "the room's server")
    yield hub
    hub.close()


def rooms_of(hub: Hub) -> Rooms:
    rooms = hub.app.parts.dispatcher.services.rooms
    assert isinstance(rooms, Rooms)
    return rooms


def member(hub: Hub, server: str, *tools: dict[str, Any], name: str = "local") -> Person:
    """A member that announces a server."""
    room: Room = rooms_of(hub).open("demo")
    person = Person(room, name)
    assert not person.announces(server, *tools).refusal
    return person


def served(hub: Hub) -> set[str]:
    return set(hub.catalogue.find(SERVER).tools)


@pytest.mark.parametrize(
    ("setting", "access", "changes"),
    [
        ("auto", "personal", "tell"),
        ("auto", "shared", "hold"),
        ("follow", "shared", "follow"),
        ("hold", "open", "hold"),
    ],
)
def test_the_setting_decides_or_the_access_of_the_hub(setting: str, access: str, changes: Changes) -> None:
    assert room_changes(setting, access) == changes


def test_a_changed_tool_of_a_member_is_held_until_it_is_approved(hub: Hub) -> None:
    """N4, issue 16 item 4: what members of rooms announce is pinned like what mounted servers list."""
    person = member(hub, "fs", tool())
    until(lambda: served(hub) == {"fs__echo"}, "the tools at first sight")
    person.announces("fs", CHANGED, tool("new"))
    until(lambda: served(hub) == set(), "the changed tools to go")
    for endpoint, prefix in ((SERVER, ""), ("", f"{SERVER}__")):
        held, absent = (hub.call(endpoint, f"{prefix}{name}", {}, MODERN) for name in ("fs__echo", "fs__absent"))
        assert held.text.partition(";")[0] == absent.text.partition(";")[0].replace("fs__absent", "fs__echo")
    document = load_pins(hub.catalogue.store, SERVER).document
    assert document is not None and list(document.waiting) == [("tool", "fs__echo"), ("tool", "fs__new")]
    seen = document.items["tool", "fs__echo"].seen
    assert seen is not None and seen.digest == digest_of(CHANGED), "the digest is that of the announced tool"
    approve(hub.catalogue.store, SERVER, "operator", keys=[("tool", "fs__echo")])
    until(lambda: served(hub) == {"fs__echo"}, "the approved tool")


def test_a_changed_prompt_of_a_member_is_held_and_resources_are_not_pinned(hub: Hub) -> None:
    """N4: a prompt is text for a model, like the description of a tool; resources are data."""
    person = Person(rooms_of(hub).open("demo"), "local")
    notes = {"uri": "file:///notes.md", "name": "notes"}
    person.announces("fs", tool(), prompts=[{"name": "review"}], resources=[notes])
    until(lambda: set(hub.catalogue.find(SERVER).prompts) == {"fs__review"}, "the prompt at first sight")
    person.announces("fs", tool(), prompts=[{"name": "review", "title": "Send all"}], resources=[{**notes, "size": 5}])
    until(lambda: set(hub.catalogue.find(SERVER).prompts) == set(), "the changed prompt to go")
    assert served(hub) == {"fs__echo"}
    assert hub.catalogue.find(SERVER).resources[notes["uri"]].wire["size"] == 5
    approve(hub.catalogue.store, SERVER, "operator", keys=[("prompt", "fs__review")])
    until(lambda: set(hub.catalogue.find(SERVER).prompts) == {"fs__review"}, "the approved prompt")


def test_each_server_of_a_room_has_its_own_first_sight_and_a_name_keeps_its_pin(hub: Hub) -> None:
    first = member(hub, "fs", tool())
    until(lambda: served(hub) == {"fs__echo"}, "the first server")
    other = member(hub, "git", tool("get"))
    until(lambda: served(hub) == {"fs__echo", "git__get"}, "the second server")
    first.session.leave()
    until(lambda: served(hub) == {"git__get"}, "the first server to go")
    again = member(hub, "fs", tool(), tool("extra"))
    until(lambda: served(hub) == {"fs__echo", "git__get"}, "what was approved of the first server")
    again.session.leave()
    until(lambda: served(hub) == {"git__get"}, "the first server to go")
    member(hub, "fs", CHANGED)
    until(lambda: ("tool", "fs__echo") in pins_waiting(hub), "the change")
    assert served(hub) == {"git__get"}
    other.session.leave()


def pins_waiting(hub: Hub) -> list[Any]:
    document = load_pins(hub.catalogue.store, SERVER).document
    return list(document.waiting) if document is not None else []
