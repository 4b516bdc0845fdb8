"""The same calls by every way in: MCP, a task, the native interface, plain HTTP, a tool that calls a tool.

All run in one process. Every way's answer is read back as a tool result, and compared with that of MCP 2026-07-28.
Four differences are by design: 2025-11-25 carries only objects as structured content; plain HTTP and a calling tool get
a large result whole, and the native interface a large value that was promised; plain HTTP shows a failure as the text
of the result; the native interface has its own words for a method that is not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from patchbay.activation import TASKS
from patchbay.events import Content, Data, Done, Event, Failed, Pause, Text
from patchbay.jsonrpc import Result, encode, parse
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.native.subscription import parse_request
from patchbay.views.fold import Fold
from tests.hubs import MODERN, Answer, Hub, modern_request
from tests.interaction.laboratory import CASES, FILES, LIMIT, TOOLS, Case, Json
from tests.protocol.native.natives import items, native, stream
from tests.waiting import until


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("ways"), FILES, inline_limit=LIMIT)
    yield hub
    hub.close()


def failed(sentence: str) -> Json:
    """A tool result that says only why there is no other."""
    return {"content": [{"type": "text", "text": sentence}], "isError": True}


def comparable_result(result: Json) -> Json:
    """A tool result without what only one revision says. How long a call took is not the same each time."""
    content = [
        block | {"text": re.sub(r"after [\d.]+ s", "after some time", block["text"])} if "text" in block else block
        for block in result["content"]
    ]
    structured = {"structuredContent": result["structuredContent"]} if "structuredContent" in result else {}
    return {"content": content, "isError": bool(result.get("isError"))} | structured


def answered(answer: Answer) -> Json:
    return dict(answer.result) if "result" in answer.last else failed(answer.error["message"])


def by_mcp_2025(hub: Hub, case: Case, server: str = "lab") -> Json:
    return answered(hub.call(server, case.tool, case.arguments))


def by_mcp_2026(hub: Hub, case: Case, server: str = "lab") -> Json:
    return answered(hub.call(server, case.tool, case.arguments, MODERN))


def as_task(hub: Hub, case: Case, server: str = "lab") -> Json:
    knows: dict[str, Any] = {"extensions": {TASKS: {}}}
    result = answered(hub.modern(server, "tools/call", {"name": case.tool, "arguments": case.arguments}, knows))
    if result.get("resultType") != "task":
        return result
    params = {"taskId": result["taskId"]}

    def ended() -> Any:
        found = hub.modern(server, "tasks/get", params, knows).result
        return found["status"] in ("completed", "failed") and found

    found = until(ended, "the end of the task")
    return dict(found["result"]) if found["status"] == "completed" else failed(found["error"]["message"])


def by_native(hub: Hub, case: Case, server: str = "lab") -> Json:
    fold = Fold()
    for item in items(hub, f"{server}.{case.tool}", case.arguments):
        for event in read_back(item):
            fold.add(event)
    return fold.result()


def read_back(item: Json) -> Iterator[Event]:
    """The event that a native item stands for, as far as a result shows it."""
    if item["type"] == "error":
        yield Failed(item["error"])
    elif item["type"] == "done":
        yield Done()
    elif item["type"] == "data" and item["content_type"] == "text/plain":
        yield Text(item["data"])
    elif item["type"] == "data" and item["content_type"] == "mcp.content":
        yield Content(item["data"])
    elif item["type"] == "data":
        yield Data(item["data"], item["content_type"], item.get("text"))


def from_tool(hub: Hub, case: Case, server: str = "lab") -> Json:
    """Asked for by plain HTTP, which gives the text of the calling tool whole."""
    given = {"tool": case.tool, "arguments": case.arguments, "server": server}
    answer = hub.client.post("/caller/relay", json=given, headers={"Accept": "application/json"})
    if answer.status_code == 500:
        assert answer.json is not None
        return failed(answer.json["error"].removeprefix(f"{server}: "))
    assert answer.status_code == 200, answer.text
    return dict(json.loads(answer.text))


RESULTS: dict[str, Callable[[Hub, Case, str], Json]] = {
    "MCP 2025-11-25": by_mcp_2025,
    "task": as_task,
    "native": by_native,
    "a tool that calls a tool": from_tool,
}


def text_of(result: Json) -> str:
    return "".join(block.get("text", "") for block in result["content"])


def difference(way: str, case: Case, expected: Json, found: Json) -> str | None:
    """What one way says otherwise than MCP 2026-07-28 does, except for what is so by design."""
    wanted = dict(expected)
    if way == "MCP 2025-11-25" and not isinstance(wanted.get("structuredContent"), dict):
        wanted.pop("structuredContent", None)
    if way == "native" and case.tool not in TOOLS:
        return None if found["isError"] else f"{way}: {case} works"
    if case.large and "structuredContent" in wanted:
        same = found.get("structuredContent") == wanted["structuredContent"] and not found["isError"]
        return None if same else f"{way}: {case} has another structured result"
    if way == "a tool that calls a tool" and case.large:
        wanted = {"content": [{"type": "text", "text": "é" * case.arguments["size"]}], "isError": False}
    return None if found == wanted else f"{way}: {case}\n    expected {wanted}\n    found    {found}"


def plain_difference(hub: Hub, case: Case, expected: Json, server: str) -> str | None:
    """The same for plain HTTP, whose answer is the status and the bytes of the result."""
    answer = hub.client.post(f"/{server}/{case.tool}", json=case.arguments, headers={"Accept": "application/json"})
    body: Any = answer.get_data()
    status, text = 200, text_of(expected)
    if expected["isError"]:
        wrong = text.startswith("the arguments do not fit")
        status = 404 if case.tool not in TOOLS else 400 if wrong else 500
        said = answer.json or {}
        body = said.get("error", said.get("message", ""))
        body = body if isinstance(body, str) else body.get("message", "")
        body = re.sub(r"after [\d.]+ s", "after some time", body)
        text = "\n".join(block["text"] for block in expected["content"])
    elif case.large and "structuredContent" not in expected:
        body, text = body.decode(), "é" * case.arguments["size"]
    elif answer.mimetype == "application/json" and "structuredContent" in expected:
        body, text = json.loads(body), expected["structuredContent"]
    elif answer.mimetype == "application/json":
        body, text = json.loads(body)["content"], expected["content"]
    else:
        body = body.decode()
    if (answer.status_code, body) == (status, text):
        return None
    return f"plain HTTP: {case}\n    expected {status} {text!r}\n    found    {answer.status_code} {body!r}"


def without_code(result: Json) -> str:
    """A result without what it says about the definition of its tool."""
    return re.sub(r" \(dict\)| \(line \d+\)", "", json.dumps(result))


@pytest.mark.parametrize("server", ["lab", "shelf"])
def test_two_hundred_calls_come_to_the_same_by_every_way_in(hub: Hub, server: str) -> None:
    """SUB-1, X-2, X-14, X-15: aliases, checks, promises and limits are those of the tool, and not of the way to it.

    A toolset of the tools gives the same as their own server, but says nothing about the code of a broken promise.
    """
    differences = []
    for case in CASES:
        expected = comparable_result(by_mcp_2026(hub, case, server))
        assert expected["isError"] is not case.works, (case, expected)
        ways = [(way, comparable_result(call(hub, case, server))) for way, call in RESULTS.items()]
        found = [difference(way, case, expected, result) for way, result in ways]
        differences += [one for one in (*found, plain_difference(hub, case, expected, server)) if one is not None]
        if server != "lab" and case.tool in TOOLS and not case.large:
            direct = comparable_result(by_mcp_2026(hub, case))
            is_same = without_code(expected) == without_code(direct)
            differences += [] if is_same else [f"{case}: {expected} and not {direct}"]
    assert not differences, f"{len(differences)} differences:\n" + "\n".join(differences)


def test_there_are_two_hundred_calls_of_every_sort() -> None:
    assert len(CASES) >= 200
    assert {case.tool for case in CASES} > TOOLS - {"waits"}
    assert sum(case.large for case in CASES) >= 5
    assert sum(not case.works for case in CASES) >= 50
    assert len({json.dumps([case.tool, case.arguments]) for case in CASES}) == len(CASES)


def test_a_large_result_links_to_the_whole_result_of_other_entry_points(hub: Hub) -> None:
    """X-14"""
    case = Case("large", {"size": 5000}, large=True)
    head, link = by_mcp_2026(hub, case)["content"]
    assert head["text"].startswith("é" * 100)
    read = hub.modern("lab", "resources/read", {"uri": link["uri"]}).result["contents"][0]
    assert read["text"] == text_of(from_tool(hub, case)) == "é" * 5000


@pytest.mark.parametrize("way", [*RESULTS, "MCP 2026-07-28", "plain HTTP"])
def test_a_resource_shows_the_last_output_whichever_way_the_call_came(hub: Hub, way: str) -> None:
    """V-C10"""
    case = Case("echo", {"text": f"said by {way}"})
    if way == "plain HTTP":
        assert hub.client.post("/lab/echo", json=case.arguments).status_code == 200
    else:
        (RESULTS | {"MCP 2026-07-28": by_mcp_2026})[way](hub, case, "lab")
    read = hub.modern("lab", "resources/read", {"uri": "lab://last"}).result["contents"][0]
    assert read["text"] == f"said by {way}"


def cancel_mcp_2025(hub: Hub, key: str) -> None:
    session = hub.open("lab")
    params = {"name": "waits", "arguments": {"key": key}, "_meta": {"progressToken": 1}}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    frames = hub.stream("lab", message, headers)
    assert next(frame for frame in frames if b"notifications/progress" in frame)
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert hub.send("lab", note, headers).status == 202
    assert not [frame for frame in frames if b'"result"' in frame]


def cancel_mcp_2026(hub: Hub, key: str) -> None:
    params = {"name": "waits", "arguments": {"key": key}}
    frames = hub.stream("lab", *modern_request("tools/call", params, meta={"progressToken": 1}))
    assert next(frame for frame in frames if b"notifications/progress" in frame)
    frames.close()


def cancel_task(hub: Hub, key: str) -> None:
    knows: dict[str, Any] = {"extensions": {TASKS: {}}}
    params = {"name": "waits", "arguments": {"key": key, "background": True}}
    task = {"taskId": hub.modern("lab", "tools/call", params, knows).result["taskId"]}
    hub.modern("lab", "tasks/cancel", task, knows)
    until(lambda: hub.modern("lab", "tasks/get", task, knows).result["status"] == "cancelled", "the task is cancelled")


def cancel_native(hub: Hub, key: str, method: str = "lab.waits", params: Json | None = None) -> None:
    said = stream(hub, method, params or {"key": key})
    first = next(said)
    assert isinstance(first, Result)
    next(said)
    request = parse_request(
        {"jsonrpc": "2.0", "id": 2, "method": "plexus_unsubscribe", "params": [parse(encode(first))["result"]]}
    )
    assert request is not None
    answer = native(hub).answer(request, TransportInfo("", connection="me"))
    assert isinstance(answer, Result)
    assert parse(encode(answer))["result"] is True
    assert not [one for one in said if not isinstance(one, Pause)]


def cancel_outer(hub: Hub, key: str) -> None:
    cancel_native(hub, key, "caller.relay", {"tool": "waits", "arguments": {"key": key}})


CANCELS = {
    "MCP 2025-11-25": cancel_mcp_2025,
    "MCP 2026-07-28": cancel_mcp_2026,
    "task": cancel_task,
    "native": cancel_native,
    "a tool that calls a tool": cancel_outer,
}


@pytest.mark.parametrize("way", CANCELS)
def test_a_cancelled_call_ends_its_tool_and_has_no_result_by_every_way_in(hub: Hub, way: str) -> None:
    """SUB-5, SUB-C11: plain HTTP has no way to cancel."""
    CANCELS[way](hub, way)
    state = hub.catalogue.hub.state("lab")
    until(lambda: state.get(way) == "ended", "the tool has ended")


@pytest.mark.parametrize("query", ["n=2&text=ab", "count=2&text=ab", "n=2&word=ab"])
def test_a_form_takes_arguments_under_their_other_names_as_their_types(hub: Hub, query: str) -> None:
    """SUB-C14"""
    answer = hub.client.post("/lab/aliased", data=query, content_type="application/x-www-form-urlencoded")
    assert (answer.status_code, answer.text) == (200, "abab")
