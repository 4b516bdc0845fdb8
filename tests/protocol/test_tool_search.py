"""Tool search: the listed tools, the found tools, and calls through `call_tool`, which equal calls of the tool.

Every test runs at one server and at all servers together, most of them in all five revisions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mcp
import orjson
import pytest
from mcp.types import TextContent

from patchbay.boot import change_names
from patchbay.catalogue.search.tool_search import FINDERS
from patchbay.messages.versions import REVISIONS
from patchbay.protocol.lists import PAGES
from tests.checkout import ROOT
from tests.hubs import MODERN, Answer, Hub, modern_request
from tests.interaction.programs import running_hub
from tests.protocol.tasks.jobs import JOBS, KNOWS, ended
from tests.protocol.test_tools import listed
from tests.sample_servers import CONFIG, ZOO

VERSIONS = tuple(REVISIONS)
SEARCH, CALL = "search_tools", "call_tool"
PLACE = 'def where(region: str = "") -> str:\n    return region\n\n\ndef secret() -> str:\n    return "told"\n'
ANNOTATED = {
    "tools": {
        "where": {
            "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
        },
        "secret": {},
    },
    "listing": {"search": True, "exclude": ["secr*"]},
}


def variable(hub: Hub, value: Any) -> None:
    """Say how all servers together are listed."""
    store = hub.catalogue.store
    change_names(store, {"variables/listing": store.blobs.put(json.dumps(value).encode())}, "tests", "listing")
    hub.catalogue.refresh()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    config = json.loads(CONFIG) | {"listing": {"search": True, "always": ["greet", "ask*"]}}
    files = {
        **{"zoo.py": ZOO, "zoo.mcp.json": json.dumps(config)},
        **{"jobs.py": JOBS, "jobs.mcp.json": '{"auto_discover": true, "listing": {"search": true}}'},
        **{"place.py": PLACE, "place.mcp.json": json.dumps(ANNOTATED)},
    }
    hub = Hub(tmp_path_factory.mktemp("search"), files)
    variable(hub, {"search": True, "always": ["zoo__greet"], "exclude": ["mcp.*"]})
    yield hub
    hub.close()


@dataclass
class Door:
    """An address at which the zoo's tools are: its own, or that of all servers. Old revisions need a session there."""

    hub: Hub
    server: str
    prefix: str
    version: str

    def send(self, method: str, params: Any, **more: Any) -> Answer:
        if self.version == MODERN:
            return self.hub.modern(self.server, method, params, **more)
        session = self.hub.open(self.server, self.version) if not self.server else None
        return self.hub.legacy(self.server, method, params, session=session, version=self.version)

    def direct(self, tool: str, arguments: Any = None, **more: Any) -> Answer:
        """Call a tool by its own name."""
        return self.send("tools/call", {"name": self.prefix + tool, "arguments": arguments or {}, **more})

    def through(self, tool: str, arguments: Any = None, **more: Any) -> Answer:
        """Call a tool by way of `call_tool`."""
        inner = {"name": self.prefix + tool} | ({} if arguments is None else {"arguments": arguments})
        return self.send("tools/call", {"name": CALL, "arguments": inner, **more})

    def search(self, query: str, **more: Any) -> Answer:
        return self.send("tools/call", {"name": SEARCH, "arguments": {"query": query, **more}})


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["one server", "all servers"])
def door(request: pytest.FixtureRequest, hub: Hub, version: str) -> Door:
    return Door(hub, "zoo", "", version) if request.param == "one server" else Door(hub, "", "zoo__", version)


@pytest.fixture(params=["one server", "all servers"])
def newest(request: pytest.FixtureRequest, hub: Hub) -> Door:
    return Door(hub, "zoo", "", MODERN) if request.param == "one server" else Door(hub, "", "zoo__", MODERN)


def test_a_list_has_the_two_tools_and_the_pinned_ones(door: Door) -> None:
    tools = {tool["name"]: tool for tool in door.send("tools/list", {}).result["tools"]}
    always = ["greet", "asks", "asks_twice"] if door.server else ["zoo__greet"]
    assert list(tools) == [SEARCH, CALL, *always]
    assert tools[CALL]["inputSchema"]["required"] == ["name"]
    assert ("zoo" if not door.server else "picture") in tools[SEARCH]["description"]
    assert ("outputSchema" in tools[SEARCH]) == (door.version >= "2025-06-18")


def test_a_found_tool_has_its_schema_and_can_be_called(door: Door) -> None:
    """The result is the same as text and, where the revision has it, as structured content."""
    answer = door.search("give a mapping of rows", limit=3)
    found = json.loads(answer.text)["tools"]
    assert found[0]["name"] == door.prefix + "table"
    assert found[0]["inputSchema"]["required"] == ["rows"] and found[0]["description"] == "Give a mapping."
    assert len(found) <= 3
    if door.version >= "2025-06-18":
        assert answer.result["structuredContent"] == {"tools": found}
    assert json.loads(door.direct("table", {"rows": 2}).text) == {"0": 0, "1": 1}


def test_an_empty_query_gives_the_first_tools_and_one_without_a_match_a_hint(newest: Door) -> None:
    first = json.loads(newest.search("", limit=2).text)["tools"]
    assert len(first) == 2
    nothing = newest.search("xylophone").result["structuredContent"]
    assert nothing["tools"] == [] and "empty query" in nothing["hint"]


CALLS: list[tuple[str, Any]] = [
    ("greet", {"name": "Ada"}),
    ("fails", {"message": "why"}),
    ("picture", {}),
    ("table", {"rows": 3}),
    ("number", {}),
    ("same", {"value": {"deep": [1, None]}}),
    ("large", {"size": 300_000}),
    ("greet", {}),
    ("greet", {"name": 5}),
    ("choose", {"colour": "blue"}),
    ("gret", {"name": "x"}),
    ("needs_nothing", {}),
    ("asks", {}),
    ("lasting", {}),
    ("lasting", {"required": True}),
]


@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=lambda value: str(value)[:24])
def test_calling_through_is_calling(door: Door, tool: str, arguments: Any) -> None:
    """SUB-17, SUB-19: results, failures, wrong arguments and unknown names are those of the tool, byte for byte."""
    direct, through = door.direct(tool, arguments), door.through(tool, arguments)
    assert (through.status, through.messages) == (direct.status, direct.messages)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "name"),
        ({"name": 5}, "name"),
        ({"name": "greet", "arguments": []}, "arguments"),
        ({"name": "greet", "more": 1}, "more"),
    ],
)
def test_a_call_of_nothing_does_not_fit_the_schema_of_the_two(door: Door, arguments: Any, words: str) -> None:
    """X-2."""
    answer = door.send("tools/call", {"name": CALL, "arguments": arguments})
    sentence = answer.error["message"] if door.version <= "2025-06-18" else answer.text
    assert sentence.startswith(f"the arguments do not fit {CALL}") and words in sentence


def test_the_two_can_be_called_through_and_end_somewhere(newest: Door) -> None:
    inner = {"name": SEARCH, "arguments": {"query": "greet", "limit": 1}}
    found = newest.send("tools/call", {"name": CALL, "arguments": inner}).result["structuredContent"]["tools"]
    assert found[0]["name"] == newest.prefix + "greet"
    circle = newest.send("tools/call", {"name": CALL, "arguments": {"name": CALL, "arguments": {"name": "greet"}}})
    assert circle.result["isError"] is True and "cannot call itself" in circle.text


@pytest.mark.parametrize("version", VERSIONS)
def test_progress_and_logs_come_under_the_clients_own_token(hub: Hub, version: str) -> None:
    """SUB-27, X-13."""
    door = Door(hub, "zoo", "", version)
    meta = {"_meta": {"progressToken": "mine"}}
    if version == MODERN:
        send = {"meta": {"progressToken": "mine"}}
        direct = door.send("tools/call", {"name": "slow", "arguments": {}}, **send)
        through = door.send("tools/call", {"name": CALL, "arguments": {"name": "slow"}}, **send)
    else:
        direct, through = door.direct("slow", **meta), door.through("slow", **meta)
    assert through.streamed and through.messages == direct.messages
    progress = [one["params"] for one in through.messages if one.get("method") == "notifications/progress"]
    assert [one["progressToken"] for one in progress] == ["mine"] * 3


def test_questions_are_asked_and_answered_through_it(newest: Door) -> None:
    """Answers and sealed state go along, whichever way the retry comes."""

    def send_call(name: str, arguments: Any, **more: Any) -> Answer:
        params = {"name": name, "arguments": arguments, **more}
        return newest.send("tools/call", params, capabilities={"elicitation": {}})

    tool = newest.prefix + "asks_twice"
    inner = {"name": tool, "arguments": {}}
    for way in ((CALL, inner), (tool, {})):
        one = send_call(CALL, inner).result
        assert list(one["inputRequests"]) == ["first"]
        answered = {"first": {"action": "accept", "content": {"v": "a"}}}
        two = send_call(CALL, inner, inputResponses=answered, requestState=one["requestState"]).result
        answered = {"second": {"action": "accept", "content": {"v": "b"}}}
        assert send_call(*way, inputResponses=answered, requestState=two["requestState"]).text == "a b"


@pytest.mark.parametrize("server", ["jobs", ""])
def test_a_call_through_it_may_become_a_task(hub: Hub, server: str) -> None:
    inner = {"name": "work" if server else "jobs__work", "arguments": {"seconds": 0.01}}
    created = hub.modern(server, "tools/call", {"name": CALL, "arguments": inner}, capabilities=KNOWS).result
    assert created["resultType"] == "task"
    done = ended(hub, created["taskId"]) if server else None
    assert done is None or done["result"]["content"][0]["text"] == "worked"


@pytest.mark.parametrize("server", ["zoo", ""])
@pytest.mark.slow
def test_a_call_through_it_is_cancelled_by_its_id(hub: Hub, server: str) -> None:
    """SUB-32: the request is the client's own."""
    session = hub.open(server)
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    inner = {"name": "hangs" if server else "zoo.hangs"}
    params = {"name": CALL, "arguments": inner, "_meta": {"progressToken": "p"}}
    request = {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params}
    stream = hub.stream(server, request, headers)
    next(stream)
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c", "reason": "enough"}}
    assert hub.send(server, note, headers).status == 202
    assert not any(b'"result"' in frame or b'"error"' in frame for frame in stream)


def test_headers_repeat_the_request_of_the_client(hub: Hub) -> None:
    """X-21: `Mcp-Name` is that of the body; `Mcp-Param-*` belong to the schema of the tool that was named."""
    inner = {"name": "where", "arguments": {"region": "eu"}}
    params = {"name": CALL, "arguments": inner}
    assert hub.modern("place", "tools/call", params).text == "eu"
    wrong = hub.modern("place", "tools/call", params, headers={"Mcp-Name": "where"})
    assert (wrong.status, wrong.error["code"]) == (400, -32020)
    missing = hub.modern("place", "tools/call", inner)
    assert (missing.status, missing.error["code"]) == (400, -32020)
    assert hub.modern("place", "tools/call", inner, headers={"Mcp-Param-Region": "eu"}).text == "eu"


def test_an_excluded_tool_cannot_be_found_or_called(hub: Hub) -> None:
    assert hub.modern("place", "tools/call", {"name": "secret"}).result["isError"] is True
    assert hub.modern("place", "tools/call", {"name": CALL, "arguments": {"name": "secret"}}).result["isError"] is True
    assert json.loads(Door(hub, "place", "", MODERN).search("secret").text)["tools"] == []
    assert hub.client.post("/place/secret", headers={"Host": "localhost"}).status_code == 404
    for name in ("mcp__list_servers", "mcp.list_servers", "mcp_list_servers"):
        assert hub.call("", name, {}, MODERN).result["isError"] is True
    assert hub.call("mcp", "list_servers", {}, MODERN).result.get("isError") is not True


def test_lists_are_made_once_and_the_index_when_somebody_searches(tmp_path: Any) -> None:
    hub = Hub(tmp_path, {"zoo.py": ZOO, "zoo.mcp.json": '{"auto_discover": true, "listing": {"search": true}}'})
    server = hub.catalogue.find("zoo")
    hub.modern("zoo", "tools/list")
    page = server.cached[PAGES][("tools", MODERN, False, False, None)]
    hub.modern("zoo", "tools/list")
    assert server.cached[PAGES][("tools", MODERN, False, False, None)] is page
    assert FINDERS not in server.cached
    hub.modern("zoo", "tools/call", {"name": SEARCH, "arguments": {"query": "greet"}})
    finder = server.cached[FINDERS][""]
    hub.modern("zoo", "tools/call", {"name": SEARCH, "arguments": {"query": "table"}})
    assert server.cached[FINDERS][""] is finder
    hub.close()


def parse_events(stream: Iterator[bytes]) -> Iterator[Any]:
    for frame in stream:
        yield from (orjson.loads(line[6:]) for line in frame.decode().split("\n") if line.startswith("data: {"))


def test_listeners_hear_that_the_listing_changed(tmp_path: Any) -> None:
    """T9.2: at a server when its configuration changes, at all servers when the variable does, there alone."""
    hub = Hub(tmp_path, {"zoo.py": ZOO})
    filter = {"notifications": {"toolsListChanged": True}}
    whole, one = (hub.stream(server, *modern_request("subscriptions/listen", filter)) for server in ("", "zoo"))
    all_changes, server_changes = parse_events(whole), parse_events(one)
    assert {next(all_changes)["method"], next(server_changes)["method"]} == {"notifications/subscriptions/acknowledged"}
    variable(hub, {"search": True})
    assert next(all_changes)["method"] == "notifications/tools/list_changed"
    assert list(listed(hub, "", MODERN)) == [SEARCH, CALL]
    (hub.servers / "zoo.mcp.json").write_text('{"auto_discover": true, "listing": {"search": true}}')
    assert next(server_changes)["method"] == "notifications/tools/list_changed"
    assert list(listed(hub, "zoo", MODERN)) == [SEARCH, CALL]
    whole.close()
    one.close()
    hub.close()


def test_a_listing_that_cannot_be_read_serves_no_tool_and_says_why(tmp_path: Any) -> None:
    hub = Hub(tmp_path, {"zoo.py": ZOO})
    store = hub.catalogue.store
    store.names.move({"variables/listing": store.blobs.put(b'{"serch": true}')}, "an older hub", "a slip")
    hub.catalogue.refresh()
    assert listed(hub, "", MODERN) == {} and "greet" in listed(hub, "zoo", MODERN)
    (problem,) = hub.catalogue.aggregate().problems
    assert problem.where == "variables/listing" and "did you mean search?" in problem.reason
    variable(hub, {"include": ["zoo.*"], "exclude": ["*.hangs"]})
    shown = listed(hub, "", MODERN)
    assert "zoo__greet" in shown and "zoo__hangs" not in shown and "echo__echo" not in shown
    hub.close()


@pytest.mark.process
@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_the_python_sdk_searches_and_calls(mode: str, tmp_path: Any) -> None:
    """The official client checks structured content against the output schema it was given."""
    (tmp_path / "zoo.py").write_text(ZOO)
    (tmp_path / "zoo.mcp.json").write_text('{"auto_discover": true, "listing": {"search": true}}')
    files = [tmp_path / "zoo.py", tmp_path / "zoo.mcp.json", ROOT / "servers" / "hello.py"]

    async def conversation(url: str) -> tuple[list[str], str, str, bool]:
        async with mcp.Client(url, mode=mode, read_timeout_seconds=30) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            found = (await client.call_tool(SEARCH, {"query": "greet someone"})).structured_content["tools"][0]["name"]
            called = await client.call_tool(CALL, {"name": found, "arguments": {"name": "Ada"}})
            failed = await client.call_tool(CALL, {"name": "fails"})
            assert isinstance(called.content[0], TextContent)
            return tools, found, called.content[0].text, failed.is_error

    with running_hub(tmp_path / "hub", files) as hub:
        result = asyncio.run(conversation(hub.endpoint("zoo")))
    assert result == ([SEARCH, CALL], "greet", "Hello, Ada!", True)
