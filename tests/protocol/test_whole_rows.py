"""Rows of the documents of origin that have several parts, each shown whole by one test, as a client sees it.

Source: docs/requirements.json; docs/proofs.json names the test of each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.hubs import MODERN, Hub

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
TOWN = '''"""A town."""

from typing import TypedDict


class Place(TypedDict):
    name: str


def visit(place: str) -> str:
    """Go somewhere."""
    return f"been to {place}"


def count(place: str) -> Place:
    """Describe a place, with an output schema that its type gives."""
    return {"name": place}


def loose(place: str):
    """Promise nothing."""
    return "text"


def wrong(place: str):
    """Break what the configuration promises."""
    return {"size": "large"}


def waits(context) -> str:
    """A resource that reports progress while it is read."""
    context.progress(1, 2)
    return "late"


def tells(context) -> str:
    """Log at three levels."""
    context.log("small", level="debug")
    context.log("middle", level="info")
    context.log("large", level="warning")
    return "told"
'''
SIZE = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
CONFIG = {
    "auto_discover": True,
    "tools": {"wrong": {"function": "wrong", "outputSchema": SIZE}},
    "resources": {
        "last": {"uri": "town://last", "name": "Last visit", "last_output_of": "visit"},
        "late": {"uri": "town://late", "name": "Late", "function": "waits"},
    },
}
PROMPTS = {"prompts": {"plan": {"messages": [{"role": "user", "content": "Plan a visit."}]}}}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {
        **{"town.py": TOWN, "town.mcp.json": orjson.dumps(CONFIG).decode()},
        **{"planned.py": TOWN, "planned.mcp.json": orjson.dumps({**CONFIG, **PROMPTS}).decode()},
    }
    one = Hub(tmp_path_factory.mktemp("rows"), files)
    yield one
    one.close()


def test_a_client_initializes_lists_and_calls(hub: Hub) -> None:
    """T8.1: on the shipped server echo, each step under the session of the first one."""
    opened = hub.legacy("echo", "initialize", HELLO, version=None)
    session = opened.headers["Mcp-Session-Id"]
    assert opened.result["protocolVersion"] == "2025-11-25"
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert hub.send("echo", ready, {"Mcp-Session-Id": session}).status == 202
    [tool] = hub.legacy("echo", "tools/list", session=session).result["tools"]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("echo", ["message"])
    called = hub.legacy("echo", "tools/call", {"name": "echo", "arguments": {"message": "hi"}}, session=session)
    assert (called.text.strip(), called.headers["Mcp-Session-Id"]) == ("hi", session)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", MODERN])
def test_the_shipped_jq_lists_its_tool_and_answers_queries_and_mistakes(hub: Hub, version: str) -> None:
    """T8.4: values of every type, several results, none, and a filter that is wrong."""
    ask = hub.modern if version == MODERN else hub.legacy
    listed = {one["name"]: one for one in ask("jq", "tools/list").result["tools"]}
    assert {"filter", "input"} <= listed["jq"]["inputSchema"]["properties"].keys()
    value = {"people": [{"name": "Ann", "age": 41}, {"name": "Bob", "age": 7}], "none": None}

    def results(query: str) -> Any:
        return orjson.loads(hub.call("jq", "jq", {"filter": query, "input": value}, version).text)

    assert results(".people[].name") == ["Ann", "Bob"]
    assert results(".people[] | select(.age > 18) | .name") == ["Ann"]
    assert results(".people[] | select(.age > 99)") == []
    assert results(".people | map(.age) | add") == [48]
    assert results(".none, .people == [], {age: .people[1].age}") == [None, False, {"age": 7}]
    failed = hub.call("jq", "jq", {"filter": ".people[", "input": value}, version)
    assert failed.result["isError"] is True


def test_parameters_of_the_wrong_type_are_invalid_params(hub: Hub) -> None:
    """T12.3: -32602 for a value of a wrong type; arguments that miss the schema as each revision reports them."""
    for params in ({"name": 5}, {"name": "visit", "arguments": [1]}, {"name": "visit", "arguments": "x"}):
        for answer in (hub.legacy("town", "tools/call", params), hub.modern("town", "tools/call", params)):
            assert answer.error["code"] == -32602, params
    for method, wanted in (("resources/read", {"uri": 5}), ("prompts/get", {"name": []})):
        assert hub.legacy("town", method, wanted).error["code"] == -32602
    wrong = {"name": "visit", "arguments": {"place": 5}}
    for version in ("2024-11-05", "2025-03-26", "2025-06-18"):
        error = hub.legacy("town", "tools/call", wrong, version=version).error
        listed = error["data"]["problems" if version == "2024-11-05" else "details"]
        assert (error["code"], listed[0]["path"]) == (-32602, "place")
    for answer in (hub.legacy("town", "tools/call", wrong), hub.modern("town", "tools/call", wrong)):
        assert answer.result["isError"] is True and "place" in answer.text


def test_functions_are_tools_outputs_are_resources_and_prompts_are_configured(hub: Hub) -> None:
    """VWR-4: no prompt is made of a function; the same code with configured prompts has exactly those."""
    tools = {one["name"] for one in hub.legacy("town", "tools/list").result["tools"]}
    assert tools == {"visit", "count", "loose", "wrong", "waits", "tells"}
    assert hub.call("town", "visit", {"place": "Rome"}).text == "been to Rome"
    assert "town://last" in {one["uri"] for one in hub.legacy("town", "resources/list").result["resources"]}
    read = hub.legacy("town", "resources/read", {"uri": "town://last"}).result
    assert read["contents"][0]["text"] == "been to Rome"
    assert hub.legacy("town", "prompts/list").result["prompts"] == []
    assert [one["name"] for one in hub.legacy("planned", "prompts/list").result["prompts"]] == ["plan"]


def test_initialize_names_the_version_the_server_and_its_capabilities(hub: Hub) -> None:
    """VWR-10, SUB-8: what goes in (protocolVersion, capabilities, clientInfo), and all that comes out."""
    sent = HELLO | {"capabilities": {"roots": {"listChanged": True}, "sampling": {}}}
    result = hub.legacy("town", "initialize", sent, version=None).result
    assert result["protocolVersion"] == "2025-11-25"
    assert result["serverInfo"]["name"] == "town"
    assert isinstance(result["serverInfo"]["version"], str) and result["serverInfo"]["version"]
    capabilities = result["capabilities"]
    assert {"tools", "resources", "prompts"} <= capabilities.keys()
    for kind in ("tools", "resources", "prompts"):
        assert isinstance(capabilities[kind]["listChanged"], bool)
    assert isinstance(capabilities["resources"]["subscribe"], bool)
    without = {name: value for name, value in sent.items() if name != "protocolVersion"}
    assert hub.legacy("town", "initialize", without, version=None).error["code"] == -32602
    assert hub.legacy("town", "initialize", {**sent, "protocolVersion": 5}, version=None).error["code"] == -32602


def test_sessions_are_created_validated_and_ended(hub: Hub) -> None:
    """VWR-12: each with an id of its own, that of another server or hub is refused, and an ended one too."""
    first, second = hub.open("town"), hub.open("town")
    assert first != second and all(one.isascii() and one.isprintable() for one in (first, second))
    assert hub.legacy("town", "ping", session=first).result == {}
    for foreign in (first[:-1], first.swapcase(), "none", hub.open("planned")):
        assert hub.legacy("town", "ping", session=foreign).status == 404
    ended = hub.client.delete("/mcp/town", headers={"Mcp-Session-Id": first, "Host": "localhost"})
    assert ended.status_code in (200, 204)
    assert hub.legacy("town", "ping", session=first).status == 404
    assert hub.legacy("town", "ping", session=second).result == {}


def test_a_stream_needs_event_stream_in_accept_and_a_call_or_a_read(hub: Hub) -> None:
    """VWR-32: a call with a progress token and a read that reports progress, if Accept allows it."""
    token = {"_meta": {"progressToken": "p"}}
    read = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "town://late", **token}}
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "visit", "arguments": {"place": "Rome"}, **token},
    }
    listing = {"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": token}
    version = {"MCP-Protocol-Version": "2025-11-25"}
    for message, streams in ((read, True), (call, True), (listing, False)):
        both = hub.send("town", message, version)
        plain = hub.send("town", message, {**version, "Accept": "application/json"})
        assert (both.streamed, plain.streamed) == (streams, False), message
        assert both.result == plain.result


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", MODERN])
def test_an_output_schema_is_kept_where_there_is_one_and_never_required(hub: Hub, version: str) -> None:
    """VWR-38: from the type of a function or from the configuration; a result that breaks it is an error."""
    ask = hub.modern if version == MODERN else hub.legacy
    tools = {one["name"]: one for one in ask("town", "tools/list").result["tools"]}
    assert tools["count"]["outputSchema"]["required"] == ["name"]
    assert tools["wrong"]["outputSchema"] == SIZE
    assert "outputSchema" not in tools["loose"]
    assert hub.call("town", "count", {"place": "Rome"}, version).result["structuredContent"] == {"name": "Rome"}
    assert not hub.call("town", "loose", {"place": "Rome"}, version).result.get("isError")
    broken = hub.call("town", "wrong", {"place": "Rome"}, version)
    assert broken.result["isError"] is True and "size" in broken.text


def test_log_messages_of_tools_reach_a_session_and_set_level_is_optional(hub: Hub) -> None:
    """SUB-31: without setLevel from `info` on; with it from the level that was set."""

    def log_messages(session: str) -> list[tuple[str, str]]:
        answer = hub.legacy("town", "tools/call", {"name": "tells"}, session=session)
        said = [one["params"] for one in answer.messages if one.get("method") == "notifications/message"]
        return [(one["level"], one["data"]) for one in said]

    session = hub.open("town")
    assert log_messages(session) == [("info", "middle"), ("warning", "large")]
    for level, count in (("debug", 3), ("warning", 1)):
        assert hub.legacy("town", "logging/setLevel", {"level": level}, session=session).result == {}
        assert log_messages(session) == [("debug", "small"), ("info", "middle"), ("warning", "large")][-count:]
