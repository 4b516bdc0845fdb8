"""Names at the address of all servers that leave room for a client's prefix, and longer ones of earlier versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from patchbay.access.audit.chain import newest_rows
from patchbay.boot import change_names
from patchbay.catalogue.aggregate.public_names import former_public_name, public_name
from tests.access.team import new_key, set_grants
from tests.hubs import MODERN, Hub, modern_request
from tests.protocol.test_tools import listed

PREFIX = "mcp__patchbay__"
"""What Claude Code puts before each name of a server that `patchbay install` calls `patchbay`."""

CLIENT_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SERVER = "records-of-the-laboratory-in-basel"
READ, DELETE = "read_measurements_of_instrument", "delete_measurements_of_instrument"
SHORT = "a"
LONGEST = "tool" * 24
SOURCE = f'''"""Measurements."""


def {READ}(id: str) -> str:
    """Read."""
    return f"read {{id}}"


def {DELETE}(id: str) -> str:
    """Delete."""
    return f"deleted {{id}}"


def {LONGEST}(id: str) -> str:
    """Do nothing."""
    return id
'''
PROMPT = {"title": "Review", "messages": [{"role": "user", "content": {"type": "text", "text": "reviewed"}}]}
CONFIG = {
    "auto_discover": True,
    "isolation": "inline",
    "tools": {READ: {"title": "Read them", "annotations": {"readOnlyHint": True}}, LONGEST: {}},
    "prompts": {"review_measurements_of_instrument": PROMPT},
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {
        **{f"{SERVER}.py": SOURCE, f"{SERVER}.mcp.json": orjson.dumps(CONFIG).decode()},
        f"{SHORT}.py": f"def {LONGEST}() -> str:\n    return 'short'\n",
        "dot.server.py": "def find() -> str:\n    return 'found'\n",
    }
    hub = Hub(tmp_path_factory.mktemp("cut"), files, access="shared", isolation="inline").list_at_mcp("*")
    hub.as_operator()
    yield hub
    hub.close()


def send(hub: Hub, headers: dict[str, str], name: str, tool: str = "") -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": {"id": "7"}}
    if tool:
        params = {"name": tool, "arguments": params}
    body, known = modern_request("tools/call", params)
    return hub.send("", body, known | headers).result


def last_row(hub: Hub) -> dict[str, Any]:
    hub.activity.flush()
    return next(row for row in newest_rows(hub.catalogue.store.journal, 5) if row["kind"] == "call")


def test_each_name_leaves_room_for_the_prefix_of_a_client(hub: Hub) -> None:
    prompts = [prompt["name"] for prompt in hub.modern("", "prompts/list").result["prompts"]]
    names = [*listed(hub, "", MODERN), *prompts]
    assert [name for name in names if not CLIENT_NAME.fullmatch(PREFIX + name)] == []
    assert len([name for name in names if name.startswith(("records-of-", "a__tool"))]) == 5


def test_a_cut_name_begins_with_the_server_and_the_tool_and_its_title_has_the_whole_name(hub: Hub) -> None:
    tools = listed(hub, "", MODERN)
    read, longest = tools[public_name(SERVER, READ)], tools[public_name(SHORT, LONGEST)]
    assert read["name"] == "records-of-_be157ff4__read_measurements__88d61454"
    assert read["title"] == f"Read them ({SERVER}__{READ})"
    assert longest["name"].startswith("a__tooltool") and longest["title"] == f"{SHORT}__{LONGEST}"
    assert tools[public_name("dot.server", "find")]["title"] == "dot.server__find"
    assert "title" not in tools["echo__echo"] or "__" not in tools["echo__echo"]["title"]
    prompts = {prompt["name"]: prompt for prompt in hub.modern("", "prompts/list").result["prompts"]}
    prompt = prompts[public_name(SERVER, "review_measurements_of_instrument")]
    assert prompt["title"] == f"Review ({SERVER}__review_measurements_of_instrument)"
    assert "title" not in listed(hub, SERVER, MODERN)[LONGEST]


def test_the_longer_names_of_earlier_versions_can_still_be_called(hub: Hub) -> None:
    operator = {"Authorization": f"Bearer {hub.token}"}
    former = former_public_name(SERVER, READ)
    assert 49 < len(former) <= 64 and former not in listed(hub, "", MODERN)
    for name in (former, public_name(SERVER, READ), f"{SERVER}.{READ}", f"{SERVER}_{READ}"):
        assert send(hub, operator, name)["content"][0]["text"] == "read 7", name
    prompt = former_public_name(SERVER, "review_measurements_of_instrument")
    assert hub.modern("", "prompts/get", {"name": prompt}).result["messages"][0]["content"]["text"] == "reviewed"


def test_grants_and_records_mean_the_same_tool_by_each_of_its_names(hub: Hub) -> None:
    set_grants(hub, {"grants": [{"to": ["key:ann"], "may": ["call", "read"], "on": [f"{SERVER}.{READ}"]}]})
    ann = new_key(hub, "ann")
    rows = []
    for named in (former_public_name, public_name):
        assert send(hub, ann, named(SERVER, READ))["content"][0]["text"] == "read 7"
        rows.append(last_row(hub))
        assert send(hub, ann, named(SERVER, DELETE))["isError"] is True
        assert last_row(hub)["decision"]["allowed"] is False
    kept = ("server", "name", "tool", "arguments", "result", "outcome")
    assert {key: rows[0][key] for key in kept} == {key: rows[1][key] for key in kept}
    assert (rows[0]["server"], rows[0]["name"]) == (SERVER, READ)


@pytest.mark.parametrize(
    "pattern", [former_public_name(SERVER, DELETE), f"{SERVER}__{DELETE}", f"{SERVER}__delete_*", f"{SERVER}.delete_*"]
)
def test_a_listing_excludes_a_tool_by_each_of_its_names(hub: Hub, pattern: str) -> None:
    store = hub.catalogue.store
    listing = orjson.dumps({"exclude": [pattern]})
    change_names(store, {"variables/listing": store.blobs.put(listing)}, "tests", "listing")
    hub.catalogue.refresh()
    try:
        assert public_name(SERVER, DELETE) not in listed(hub, "", MODERN)
        operator = {"Authorization": f"Bearer {hub.token}"}
        for name in (former_public_name(SERVER, DELETE), public_name(SERVER, DELETE), f"{SERVER}.{DELETE}"):
            assert send(hub, operator, name)["isError"] is True
        assert not any("no tool matches" in problem.reason for problem in hub.catalogue.aggregate().problems)
    finally:
        change_names(store, {"variables/listing": None}, "tests", "no listing")
        hub.catalogue.refresh()


def test_call_tool_takes_the_name_of_an_earlier_version(hub: Hub) -> None:
    store = hub.catalogue.store
    change_names(store, {"variables/listing": store.blobs.put(b'{"search": true}')}, "tests", "listing")
    hub.catalogue.refresh()
    try:
        operator = {"Authorization": f"Bearer {hub.token}"}
        for named in (former_public_name, public_name):
            assert send(hub, operator, named(SERVER, READ), "call_tool")["content"][0]["text"] == "read 7"
        body, known = modern_request(
            "tools/call", {"name": "search_tools", "arguments": {"query": "delete measurements instrument"}}
        )
        found = hub.send("", body, known | operator).result["structuredContent"]["tools"]
        assert public_name(SERVER, DELETE) in [tool["name"] for tool in found]
    finally:
        change_names(store, {"variables/listing": None}, "tests", "no listing")
        hub.catalogue.refresh()
