"""A caller tries to change an argument that a toolset fixes, at an origin that checks nothing.

Sources: issue 54; TOOLSETS section 5; RFC 8259, section 4 (names within an object are unique).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.hubs import MODERN, Hub, modern_request
from tests.kinds.toolset.sets import hub_with, toolset
from tests.waiting import until

PROGRAM = Path(__file__).with_name("echoing_server.py")
FIXED = {"account": {"value": "ours"}, "query": {"name": "words"}}
SCHEMA = {
    "type": "object",
    "properties": {"place": {"type": "string", "x-alias": "where"}, "n": {"type": "integer"}},
    "required": ["place"],
}
ALIASED = {"auto_discover": True, "isolation": "inline", "tools": {"look": {"inputSchema": SCHEMA}}}
NEAR = 'def look(place: str = "", n: int = 0) -> str:\n    """Look."""\n    return place\n'
SPELLINGS = (
    *("account", "Account", "ACCOUNT", "acc_ount", "ac-count", "a.ccount"),
    *(" account", "account\u3000", "\uff41ccount"),
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("fixed")
    (folder / "text").write_text("Say what it got.")
    address = f"mcp+stdio:{sys.executable} -S {PROGRAM} {folder / 'text'}"
    tools = {name: {"from": f"far.{name}", "arguments": FIXED} for name in ("get", "open")}
    files = {
        "far.json": orjson.dumps({"kind": "upstream", "address": address, "confine": "off"}).decode(),
        "near.py": NEAR,
        "near.mcp.json": orjson.dumps(ALIASED).decode(),
        "release.json": toolset(
            tools={**tools, "look": {"from": "near.look", "arguments": {"place": {"value": "ours"}}}}
        ),
        "outer.json": toolset(tools={"get": {"from": "release.get", "arguments": {"words": {"name": "text"}}}}),
    }
    found = hub_with(folder, files).as_operator()
    until(lambda: {"get", "open", "look"} <= set(found.catalogue.find("release").tools), "the tools of the mount")
    yield found
    found.close()


@pytest.mark.parametrize("tool", ["get", "open"])
def test_the_mounted_origin_gets_the_fixed_value_and_its_own_names(hub: Hub, tool: str) -> None:
    assert orjson.loads(hub.call("release", tool, {"words": "x"}).text) == {"account": "ours", "query": "x"}


def test_a_toolset_of_a_toolset_shapes_what_is_left(hub: Hub) -> None:
    assert orjson.loads(hub.call("outer", "get", {"text": "x"}).text) == {"account": "ours", "query": "x"}
    assert refuses(hub, "outer", "get", {"words": "x"}) and refuses(hub, "outer", "get", {"account": "x"})


def refuses(hub: Hub, server: str, tool: str, arguments: Any) -> bool:
    answer = hub.call(server, tool, arguments)
    return "error" in answer.last or bool(answer.result.get("isError"))


@pytest.mark.parametrize("tool", ["get", "open"])
@pytest.mark.parametrize("name", SPELLINGS)
def test_no_spelling_of_a_fixed_argument_is_taken(hub: Hub, tool: str, name: str) -> None:
    assert refuses(hub, "release", tool, {name: "theirs"})


@pytest.mark.parametrize(
    "arguments",
    [
        {"arguments": {"account": "theirs"}},
        {"params": {"arguments": {"account": "theirs"}}},
        {"": {"account": "theirs"}},
        {"words": {"account": "theirs"}},
        {"query": "x"},
    ],
)
def test_neither_nesting_nor_the_origins_name_reaches_the_origin(hub: Hub, arguments: Any) -> None:
    assert refuses(hub, "release", "get", arguments)


def test_an_alias_of_a_fixed_argument_is_refused(hub: Hub) -> None:
    assert hub.call("near", "look", {"where": "theirs"}).text == "theirs"
    assert refuses(hub, "release", "look", {"where": "theirs"})
    assert hub.call("release", "look", {}).text == "ours"


def test_a_name_that_stands_twice_is_refused(hub: Hub) -> None:
    body, headers = modern_request("tools/call", {"name": "open", "arguments": {"words": "x"}})
    for twice in (b'"words":"x","account":"theirs","account":"ours"', b'"words":"x","words":"y"'):
        raw = orjson.dumps(body).replace(b'"words":"x"', twice)
        answer = hub.raw("release", raw, headers)
        assert "error" in answer.last and "theirs" not in answer.body.decode()


def test_the_members_of_meta_are_no_arguments(hub: Hub) -> None:
    meta = {"account": "theirs", "arguments": {"account": "theirs"}, "io.patchbay/arguments": {"account": "theirs"}}
    answer = hub.modern("release", "tools/call", {"name": "get", "arguments": {"words": "x"}}, meta=meta)
    assert orjson.loads(answer.text)["account"] == "ours"


@pytest.mark.parametrize("way", ["plain", "native", "all"])
def test_no_other_way_in_takes_a_fixed_argument(hub: Hub, way: str) -> None:
    given = {"account": "theirs", "words": "x"}
    if way == "plain":
        text = hub.client.post("/release/get", json=given).text
    elif way == "native":
        native = {"jsonrpc": "2.0", "id": 1, "method": "release.get", "params": given}
        text = hub.client.post("/rpc", json=native, headers={"Accept": "application/x-ndjson"}).text
    else:
        text = hub.call("", "release__get", given, MODERN).body.decode()
    assert "account" in text and "theirs" not in text
