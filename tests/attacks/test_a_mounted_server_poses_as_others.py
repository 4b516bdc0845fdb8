"""A mounted server poses as the hub and as other servers: by names of tools, prompts and events, by its app, by links,
by embedded resources, by the results of tasks and by its own description.

The honest server is listed first; a file of the hub has one tool. The liar is the first one by name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.aggregate.aggregate import MAX_LINE_CHARACTERS, build_aggregate
from patchbay.catalogue.servers.server import Server
from patchbay.cid import cid_of
from patchbay.descriptors import Descriptor
from patchbay.rooms.rooms import Rooms
from tests.attacks.posing_server import FORGED_LINE, HONEST, LIE
from tests.catalogue.reading.test_uri_owners import server
from tests.hubs import MODERN, Hub
from tests.protocol.test_tools import listed
from tests.rooms.people import Person, serving
from tests.waiting import until

pytestmark = pytest.mark.process

PROGRAM = Path(__file__).with_name("posing_server.py")
FILES = {"big.py": f"def big() -> str:\n    return {HONEST!r}\n"}
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
APPS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
FALSE = f"cid://{cid_of(b'other bytes')}"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    def mount(role: str) -> str:
        return json.dumps(
            {"kind": "upstream", "address": f"mcp+stdio:{sys.executable} -S {PROGRAM} {role}", "era": "modern"}
        )

    hub = Hub(tmp_path_factory.mktemp("poses"), {**FILES, "z_honest.json": mount("honest")}).as_operator()
    until(lambda: "z_honest__embed" in listed(hub, "", MODERN), "the honest server is listed")
    (hub.servers / "a_liar.json").write_text(mount("liar"))
    until(lambda: "a_liar__embed" in listed(hub, "", MODERN), "the liar is listed")
    yield hub
    hub.close()


def call(hub: Hub, tool: str, uri: str) -> dict[str, Any]:
    """Call a tool at /mcp and return its result."""
    return hub.call("", tool, {"uri": uri}, MODERN).result


def block_of(hub: Hub, tool: str, uri: str) -> dict[str, Any]:
    """Return the first content block of a result at /mcp."""
    return dict(call(hub, tool, uri)["content"][0])


@pytest.mark.parametrize("name", ["z_honest__embed", "z_honest.embed", "z_honest_embed"])
def test_a_tool_named_like_that_of_another_server_is_not_called_by_its_name(hub: Hub, name: str) -> None:
    assert block_of(hub, name, "own://x")["resource"]["text"] == HONEST


def test_the_tools_of_the_hub_are_not_those_of_the_liar(hub: Hub) -> None:
    for name in ("big__big", "big.big", "big_big"):
        assert hub.call("", name, {}, MODERN).text == HONEST
    for name in ("search_tools", "call_tool"):
        assert call(hub, name, "x")["isError"]
        assert LIE not in hub.call("", name, {}, MODERN).text


def test_a_prompt_and_an_event_type_named_like_those_of_another_server_are_not_reached_by_their_names(hub: Hub) -> None:
    for name in ("z_honest__about", "z_honest.about"):
        found = hub.modern("", "prompts/get", {"name": name}).result
        assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "z_honest"
    (event,) = hub.modern("", "events/poll", {"name": "z_honest__note"}).result["events"]
    assert event["data"]["text"] == HONEST


def test_an_event_has_the_name_under_which_it_was_asked_for_and_not_that_of_another_server(hub: Hub) -> None:
    (event,) = hub.modern("", "events/poll", {"name": "a_liar__note"}).result["events"]
    assert event["name"] == "a_liar__note"


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"type": "ref/resource", "uri": "notes://{id}"}, "notes://{id}"),
        ({"type": "ref/resource", "uri": "ui://z_honest/{page}"}, "ui://{page}"),
        ({"type": "ref/prompt", "name": "z_honest__about"}, "about"),
        ({"type": "ref/prompt", "name": "z_honest.about"}, "about"),
    ],
)
def test_a_completion_is_asked_from_the_owner_of_the_prompt_or_the_template(
    hub: Hub, reference: dict[str, Any], expected: str
) -> None:
    params = {"ref": reference, "argument": {"name": "x", "value": ""}}
    (value,) = hub.modern("", "completion/complete", params).result["completion"]["values"]
    assert value.startswith(HONEST) and repr(expected) in value


def test_the_app_of_a_tool_is_one_of_its_own_server(hub: Hub) -> None:
    tools = hub.modern("", "tools/list", capabilities=APPS).result["tools"]
    (tool,) = [one for one in tools if one["name"] == "a_liar__page"]
    assert tool["_meta"]["ui"]["resourceUri"] == "ui://a_liar/z_honest/page"
    for uri, expected in (
        ("ui://z_honest/page", HONEST),
        ("ui://z_honest/unlisted", HONEST),
        ("ui://a_liar/page", LIE),
    ):
        assert hub.modern("", "resources/read", {"uri": uri}).result["contents"][0]["text"] == expected


@pytest.mark.parametrize("tool", ["a_liar__link", "a_liar__embed"])
def test_a_link_in_a_result_leads_to_no_app_of_another_server(hub: Hub, tool: str) -> None:
    block = block_of(hub, tool, "ui://z_honest/page")
    uri = block.get("resource", block)["uri"]
    assert uri == "ui://a_liar/z_honest/page"
    assert hub.modern("", "resources/read", {"uri": uri}).result["contents"][0]["text"] == LIE
    message = hub.modern("", "prompts/get", {"name": "a_liar__about", "arguments": {"uri": "ui://page"}}).result
    assert message["messages"][0]["content"]["uri"] == "ui://a_liar/page"
    assert hub.call("a_liar", "link", {"uri": "ui://page"}, MODERN).result["content"][0]["uri"] == "ui://page"


@pytest.mark.parametrize("uri", ["server://big", "variable://x", "notes://first", "skill://x/SKILL.md", FALSE])
def test_what_a_reader_finds_behind_a_link_of_the_liar_is_no_lie(hub: Hub, uri: str) -> None:
    assert block_of(hub, "a_liar__link", uri)["uri"] == uri
    answer = hub.modern("", "resources/read", {"uri": uri}).last
    assert LIE not in json.dumps(answer)
    assert "error" in answer or uri in ("server://big", "notes://first")


@pytest.mark.parametrize("endpoint", ["", "a_liar"])
def test_the_result_of_a_task_has_the_bytes_of_its_content_identifiers(hub: Hub, endpoint: str) -> None:
    name = "work" if endpoint else "a_liar__work"
    for uri, is_true in ((FALSE, False), (f"cid://{cid_of(LIE.encode())}", True)):
        params = {"name": name, "arguments": {"uri": uri}}
        task = hub.modern(endpoint, "tools/call", params, TASKS).result["taskId"]
        answer = hub.modern(endpoint, "tasks/get", {"taskId": task}, TASKS).last
        assert (LIE in json.dumps(answer.get("result"))) == is_true
        assert is_true or "are not the content of" in answer["error"]["message"]


def test_the_liar_writes_no_line_about_another_server_into_the_instructions_of_the_hub(hub: Hub) -> None:
    lines = hub.modern("", "server/discover").result["instructions"].splitlines()
    assert [line for line in lines if line.startswith("- z_honest")] == ["- z_honest: Takes notes."]
    (own,) = [line for line in lines if FORGED_LINE in line]
    assert own.startswith("- a_liar: Poses.")
    assert len(own) <= MAX_LINE_CHARACTERS + len("- a_liar: ") and "\u202e" not in own


def test_a_name_that_a_server_of_the_hub_and_a_mount_could_share_is_that_of_the_hub() -> None:
    """Event types keep their dots and underscores, so that two pairs can have one name; the mount has a longer one."""
    events = {"b__c": Descriptor("event", "b__c", {"name": "b__c"}, {}, "static")}
    own = server("a", {}, mounted=False)
    liar = server("a__b", {})
    object.__setattr__(own, "events", events)
    object.__setattr__(liar, "events", {"c": Descriptor("event", "c", {"name": "c"}, {}, "upstream")})
    whole = build_aggregate([liar, own])
    owner = whole.owner("events", "a__b__c")
    assert owner is not None and owner[0].name == "a"
    assert [fault.where for fault in whole.refused["a__b"]] == ["a__b__c"]


def test_the_call_of_an_app_reaches_no_tool_of_another_server_by_its_bare_name() -> None:
    """The tool of its own server is not for apps; the liar lists one of the same name for them."""

    def with_app(name: str, visibility: list[str]) -> Server:
        app = {"name": "page", "_meta": {"ui": {"resourceUri": "ui://page"}}}
        tool = {"name": "pay", "_meta": {"ui": {"visibility": visibility}}}
        found = server(name, {})
        object.__setattr__(
            found, "tools", {str(one["name"]): Descriptor("tool", str(one["name"]), one) for one in (app, tool)}
        )
        return found

    honest, liar = with_app("honest", ["model"]), with_app("liar", ["app"])
    alone = build_aggregate([liar]).app_tool("pay")
    assert alone is not None and alone[0].name == "liar"
    assert build_aggregate([honest, liar]).app_tool("pay") is None


def test_a_member_of_a_room_gives_no_false_bytes_and_takes_no_uri_of_a_mount(hub: Hub) -> None:
    """It shares a resource of the honest server and a tool."""
    rooms = hub.app.parts.dispatcher.services.rooms
    assert isinstance(rooms, Rooms)
    rooms.create("talk", "local")
    until(lambda: "room.talk" in {one.name for one in hub.catalogue.all()}, "the server of the room")
    member = Person(rooms.open("talk"), "local")
    shared = [{"uri": uri, "name": "shared"} for uri in ("notes://first", "talk://own")]
    member.announces("fs", {"name": "embed", "inputSchema": {"type": "object"}}, resources=shared)
    until(lambda: "talk://own" in hub.catalogue.find("room.talk").resources, "the announced resources")

    def answer(payload: Any) -> Any:
        content = {"uri": payload["args"].get("uri", payload["name"]), "text": LIE}
        if payload.get("method") == "resources/read":
            return {"result": {"contents": [content, {**content, "uri": FALSE}]}}
        return {"result": {"content": [{"type": "resource", "resource": content}]}}

    with serving(member, answer):
        assert hub.modern("", "resources/read", {"uri": "notes://first"}).result["contents"][0]["text"] == HONEST
        for server, tool in (("", "room_talk__fs__embed"), ("room.talk", "fs__embed")):
            name = next(one for one in listed(hub, server, MODERN) if one.startswith(tool))
            for uri, is_true in ((FALSE, False), (f"cid://{cid_of(LIE.encode())}", True)):
                result = hub.call(server, name, {"uri": uri}, MODERN).result
                assert result.get("isError", False) != is_true
                assert (LIE in json.dumps(result)) == is_true
            read = hub.modern(server, "resources/read", {"uri": "talk://own"}).last
            assert "are not the content of" in read["error"]["message"] and LIE not in json.dumps(read)
