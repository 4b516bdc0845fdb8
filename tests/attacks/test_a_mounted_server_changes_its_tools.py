"""A mounted server changes its tools after they were approved: texts, names, schemas, hints, invisible characters.

Source: OWASP MCP Top 10 (2025), MCP03 tool poisoning; SEP-1766 (digests of tools).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from patchbay.cid import cid_of
from patchbay.pins.approval import approve
from patchbay.pins.documents import encode_wire
from patchbay.topics import PINS
from tests.hubs import Hub
from tests.pins.independent_digests import digest_of
from tests.upstreams.changing import as_absent, control, document, listed, mount, rows, served, tool, tools, waiting
from tests.waiting import POLL_SECONDS, until

pytestmark = pytest.mark.process

ROUNDS = 8
"""Each round changes all 25 tools of the server, each in another part than before."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that holds the changes of its mounted server."""
    hub = Hub(tmp_path_factory.mktemp("hub"), {"hold.json": mount("hold", tools(0)), "late.json": mount("hold", [])})
    until(lambda: "t0" in served(hub, "hold") and "control" in served(hub, "late"), "the mounted servers")
    yield hub
    hub.close()


@contextmanager
def watching(hub: Hub, server: str) -> Iterator[set[str]]:
    """Collect the CIDs of every descriptor that the hub serves meanwhile."""
    seen: set[str] = set()
    ending = threading.Event()

    def watch() -> None:
        while not ending.wait(POLL_SECONDS):
            seen.update(one.digest for one in hub.catalogue.find(server).tools.values())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield seen
    ending.set()
    thread.join()


def test_two_hundred_changes_are_served_only_after_their_approval(hub: Hub) -> None:
    """Issue 16, rug pull: descriptions, names, schemas, annotations, invisible characters; a row for each; digests."""
    for stage in range(1, ROUNDS + 1):
        changed = tools(stage)
        keys = {("tool", one["name"]) for one in changed}
        with watching(hub, "hold") as seen:
            hold_changes(hub, changed)
            check_pins_and_rows(hub, changed)
            as_absent(hub, "hold", changed[stage]["name"])
        assert seen.isdisjoint(cid_of(encode_wire(one)) for one in changed)
        assert set(approve(hub.catalogue.store, "hold", "ann@example.org")) == keys
        check_served(hub, changed)


def hold_changes(hub: Hub, changed: list[dict[str, Any]]) -> None:
    """Let the server list other tools, and wait until they are held."""
    control(hub, "hold", tools=changed)
    until(lambda: waiting(hub, "hold") == {("tool", one["name"]) for one in changed}, "the changes")
    until(lambda: served(hub, "hold") == {"control"}, "the changed tools to go")
    assert [one["name"] for one in listed(hub, "hold")] == ["control"]
    assert [one["name"] for one in listed(hub, "") if one["name"].startswith("hold__")] == ["hold__control"]


def check_pins_and_rows(hub: Hub, changed: list[dict[str, Any]]) -> None:
    """Each change has the digest of an independent program, and a row in the history."""
    pins = document(hub, "hold")
    for one in changed:
        seen = pins.items["tool", one["name"]].seen
        assert seen is not None and seen.digest == digest_of(one)
        cid, who, why = rows(hub, "hold", one["name"])[0]
        assert (cid, who) == (seen.cid, "upstream") and "held until it is approved" in why


def check_served(hub: Hub, changed: list[dict[str, Any]]) -> None:
    """The approved tools are listed and called as the server has them, and the approval names its author."""
    until(lambda: served(hub, "hold") == {"control", *(one["name"] for one in changed)}, "the approved tools")
    shown = {one["name"]: one for one in listed(hub, "hold")}
    assert all(shown[one["name"]].items() >= one.items() for one in changed)
    assert hub.call("hold", changed[0]["name"], {}).text == f"ran {changed[0]['name']}"
    move = hub.catalogue.store.names.past(PINS + "hold", 1)[0]
    assert move.who == "ann@example.org" and move.why.startswith("approve tool ")


def test_a_tool_that_appears_later_is_not_served(hub: Hub) -> None:
    """A tool of a new name is a change too: a rename would evade a pin."""
    control(hub, "late", tools=[tool(3)])
    until(lambda: waiting(hub, "late") == {("tool", "t3")}, "the new tool")
    assert served(hub, "late") == {"control"}
    as_absent(hub, "late", "t3")
