"""What the list of all servers at /mcp has: the servers of the operator, and the built-in ones that are switched in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.boot import change_names
from tests.hubs import Hub
from tests.upgrade.released import RELEASED, upgraded

MINE = {"mine.py": 'def f() -> str:\n    """Say x."""\n    return "x"\n'}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A new hub with one server of its operator."""
    found = Hub(tmp_path, MINE)
    yield found
    found.close()


def set_listing(hub: Hub, **fields: Any) -> None:
    """Write the variable `listing`."""
    store = hub.catalogue.store
    change_names(store, {"variables/listing": store.blobs.put(json.dumps(fields).encode())}, "test", "listing")
    hub.catalogue.refresh()


def listed(hub: Hub, method: str = "tools/list") -> set[str]:
    """The servers that have an entry in a list at /mcp."""
    (rows,) = [rows for rows in hub.modern("", method).result.values() if isinstance(rows, list)]
    names = [row.get("uri") or row["name"] for row in rows]
    return {name.partition("__")[0].partition("://")[0] for name in names}


def test_a_new_hub_lists_the_servers_of_its_operator_alone(hub: Hub) -> None:
    """Issue 54, item 3: in every list, in the instructions and in what a search finds."""
    assert listed(hub) == {"mine"}
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        answer = hub.modern("", method).result
        assert [rows for rows in answer.values() if isinstance(rows, list)] == [[]], method
    said = hub.modern("", "server/discover").result["instructions"]
    assert "- mine" in said and "jq" not in said
    set_listing(hub, search=True, built_in=[])
    found = hub.modern("", "tools/call", {"name": "search_tools", "arguments": {"query": ""}}).result[
        "structuredContent"
    ]["tools"]
    assert [one["name"] for one in found] == ["mine__f"]


def test_a_tool_that_is_not_listed_can_be_called_by_its_name(hub: Hub) -> None:
    answer = hub.modern("", "tools/call", {"name": "echo__echo", "arguments": {"message": "hello"}}).result
    assert not answer["isError"] and "hello" in json.dumps(answer["content"])
    assert hub.modern("", "resources/read", {"uri": "jq://cheat-sheet"}).result["contents"]
    assert {tool["name"] for tool in hub.modern("jq", "tools/list").result["tools"]} >= {"keys", "query"}


def test_the_listing_switches_built_in_servers_in(hub: Hub) -> None:
    set_listing(hub, built_in=["j*", "echo"])
    assert listed(hub) == {"mine", "jane", "jq", "echo"} and "jq" in listed(hub, "resources/list")
    set_listing(hub, built_in=[])
    assert listed(hub) == {"mine"}


def test_a_pattern_with_the_name_of_a_built_in_server_switches_it_in(hub: Hub) -> None:
    """Who writes the name of a server into `include` means it; a pattern of all names means the own ones."""
    set_listing(hub, include=["jq__*", "mine.*"])
    assert listed(hub) == {"mine", "jq"}
    set_listing(hub, include=["*__*"])
    assert listed(hub) == {"mine"}


def test_a_built_in_server_that_somebody_switched_on_is_listed(tmp_path: Path) -> None:
    """It is off at first, so that switching it on says that it is wanted."""
    hub = Hub(tmp_path, MINE, enable=("everything",))
    assert listed(hub) == {"mine", "everything"}
    set_listing(hub, built_in=[])
    assert listed(hub) == {"mine"}
    hub.close()


def test_a_built_in_server_with_changed_code_is_the_operators(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {**MINE, "echo.py": 'def shout() -> str:\n    """Shout."""\n    return "X"\n'})
    assert listed(hub) == {"mine", "echo"}
    hub.close()


def test_every_server_of_a_boot_image_that_was_named_is_listed(tmp_path: Path) -> None:
    hub = Hub(tmp_path, boot="readonly")
    assert {"jq", "jane", "echo"} <= listed(hub)
    hub.close()


@pytest.mark.parametrize("commit", RELEASED)
def test_a_hub_of_an_earlier_version_lists_what_it_listed(tmp_path: Path, commit: str) -> None:
    """Its clients use the tools of built-in servers; a saved listing keeps its meaning, and a new member works."""
    hub = upgraded(commit, tmp_path)
    everything = listed(hub)
    assert {"jq", "jane", "echo"} <= everything
    set_listing(hub, exclude=["echo.*"])
    assert listed(hub) == everything - {"echo"}
    set_listing(hub, exclude=["echo.*"], built_in=["jq"])
    assert "jq" in listed(hub) and not {"jane", "echo", "markdown"} & listed(hub)
    hub.close()


def test_a_hub_keeps_its_list_over_starts(tmp_path: Path) -> None:
    for _ in range(2):
        hub = Hub(tmp_path, MINE, store="sqlite")
        assert listed(hub) == {"mine"}
        hub.close()


def test_clients_hear_that_a_server_is_in_the_lists(hub: Hub) -> None:
    journal = hub.catalogue.store.journal
    before = journal.last("changes/")
    set_listing(hub, built_in=["jq"])
    (entry,) = [json.loads(one.data) for one in journal.read("changes/", before)]
    assert entry["kinds"] == ["tools", "resources", "prompts", "events"]


def test_a_pattern_that_matches_nothing_is_a_problem_with_the_nearest_name(hub: Hub) -> None:
    set_listing(hub, exclude=["mien__*", "mine__g", "jq.kays"], built_in=["jame"])
    assert [problem.reason for problem in hub.catalogue.aggregate().problems] == [
        "no built-in server matches jame; did you mean jane?",
        "no tool matches mien__*; did you mean mine__*?",
        "no tool matches mine__g; did you mean mine__f?",
        "no tool matches jq.kays; did you mean jq.keys or jq.paths?",
    ]
