"""A mounted server changes its tools after they were approved: texts, names, schemas, hints, invisible characters.

Source: OWASP MCP Top 10 (2025), MCP03 tool poisoning; SEP-1766 (digests of tools).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.pins.approval import approve
from patchbay.topics import PINS
from tests.hubs import Hub
from tests.kinds.mount.changing import as_absent, control, document, listed, mount, rows, served, tool, tools, waiting
from tests.pins.independent_digests import digest_of
from tests.waiting import until

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


def test_two_hundred_changes_are_served_only_after_their_approval(hub: Hub) -> None:
    """Issue 16, rug pull: descriptions, names, schemas, annotations, invisible characters; a row for each; digests."""
    store = hub.catalogue.store
    for stage in range(1, ROUNDS + 1):
        changed = tools(stage)
        names = {one["name"] for one in changed}
        control(hub, "hold", tools=changed)
        until(lambda keys={("tool", name) for name in names}: waiting(hub, "hold") == keys, "the changes")
        until(lambda: set(hub.catalogue.find("hold").tools) == {"control"}, "the changed tools to go")
        assert [one["name"] for one in listed(hub, "hold")] == ["control"]
        assert not [one for one in listed(hub, "") if one["name"].startswith("hold__t")]
        as_absent(hub, "hold", changed[stage]["name"])
        pins = document(hub, "hold")
        for one in changed:
            seen = pins.items["tool", one["name"]].seen
            assert seen is not None and seen.digest == digest_of(one)
            cid, who, why = rows(hub, "hold", one["name"])[0]
            assert (cid, who) == (seen.cid, "upstream") and "held until it is approved" in why
        approve(store, "hold", "ann@example.org")
        until(lambda names=names: set(hub.catalogue.find("hold").tools) == {"control", *names}, "the approved tools")
        shown = {one["name"]: one for one in listed(hub, "hold")}
        assert all(shown[one["name"]].items() >= one.items() for one in changed)
        move = store.names.past(PINS + "hold", 1)[0]
        assert move.who == "ann@example.org" and move.why.startswith("approve tool ")
        assert hub.call("hold", changed[0]["name"], {}).text == f"ran {changed[0]['name']}"


def test_a_tool_that_appears_later_is_not_served(hub: Hub) -> None:
    """A tool of a new name is a change too: a rename would evade a pin."""
    control(hub, "late", tools=[tool(3)])
    until(lambda: waiting(hub, "late") == {("tool", "t3")}, "the new tool")
    assert served(hub, "late") == {"control"}
    as_absent(hub, "late", "t3")
