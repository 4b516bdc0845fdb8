"""Integers beyond 64 bits pass through exactly, in arguments and results, on every way (issue 50 item 11)."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from patchbay.activity.records import Filter
from patchbay.messages.versions import LEGACY
from tests.hubs import MODERN, Answer, Hub, modern_request
from tests.waiting import until

SOURCE = '''"""Numbers of any size."""

from dataclasses import dataclass


@dataclass
class Sum:
    total: int


def same(value: int) -> dict:
    """Give back what came."""
    return {"value": value}


def power(bits: int) -> int:
    """Return a power of two."""
    return 2**bits


def row(bits: int) -> Sum:
    """Return a dataclass."""
    return Sum(2**bits)


def listed(bits: int) -> list[int]:
    """Return a list."""
    return [2**bits, 1]


def small(value: int) -> int:
    """Take a number."""
    return value


def asks(context, value: int) -> dict:
    """Ask, then give back what came."""
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}}
    context.elicit("Really?", schema, key="really")
    return {"value": value}


def late(context, value: int) -> dict:
    """Give back what came, in the background."""
    context.background()
    return {"value": value}


def keep(context, value: int) -> dict:
    """Keep what came."""
    context.state["value"] = value
    return {"value": context.state["value"]}


def outer(context, value: int) -> dict:
    """Call another tool."""
    return context.call("numbers", "same", value=value)["structuredContent"]


async def wait(value: int) -> dict:
    """Give back what came."""
    return {"value": value}
'''

CONFIGURATION = {
    "auto_discover": True,
    "tools": {"small": {"inputSchema": {"type": "object", "properties": {"value": {"type": "integer", "maximum": 5}}}}},
}
VALUES = [2**63, 2**64, 10**20, -(2**63) - 1, -(10**30), 2**70, 10**300]


@pytest.fixture(scope="module", params=["inline", "process"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {
        "numbers.py": SOURCE,
        "numbers.mcp.json": json.dumps(CONFIGURATION | {"isolation": request.param}),
        "asked.py": SOURCE,
        "asked.mcp.json": json.dumps({"auto_discover": True, "tools": {"same": {"approve": True}}}),
    }
    hub = Hub(tmp_path_factory.mktemp(f"integers-{request.param}"), files).as_operator()
    hub.catalogue.hub.gate.wait_seconds = 0.0
    yield hub
    hub.close()


def exact(answer: Answer) -> Any:
    """The result of an answer, with every digit of its numbers."""
    body = answer.body
    if answer.streamed:
        body = next(line[6:] for line in reversed(body.split(b"\\n")) if line.startswith(b"data: {"))
    return json.loads(body)["result"]


def send(hub: Hub, server: str, tool: str, arguments: Any, version: str = MODERN) -> Any:
    """Call a tool with a body that has every digit."""
    params = {"name": tool, "arguments": arguments}
    if version == MODERN:
        message, headers = modern_request("tools/call", params)
    else:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"MCP-Protocol-Version": version}
    return exact(hub.raw(server, json.dumps(message).encode(), headers))


@pytest.mark.parametrize("version", [*LEGACY, MODERN])
@pytest.mark.parametrize("value", VALUES)
def test_an_argument_and_a_result_keep_every_digit(hub: Hub, value: int, version: str) -> None:
    result = send(hub, "numbers", "same", {"value": value}, version)
    assert json.loads(result["content"][0]["text"]) == {"value": value}
    assert result.get("structuredContent", {"value": value}) == {"value": value}


@pytest.mark.parametrize(
    ("tool", "wrap"), [("power", int), ("listed", lambda n: [n, 1]), ("row", lambda n: {"total": n})]
)
def test_an_own_result_beyond_64_bits_is_structured_content(hub: Hub, tool: str, wrap: Any) -> None:
    result = send(hub, "numbers", tool, {"bits": 70})
    assert not result.get("isError") and result["structuredContent"] == wrap(2**70)
    assert json.loads(result["content"][0]["text"]) == wrap(2**70)


@pytest.mark.parametrize("tool", ["wait", "outer", "same"])
@pytest.mark.parametrize("server", ["numbers", ""])
def test_every_way_to_a_tool_keeps_them(hub: Hub, tool: str, server: str) -> None:
    name = tool if server else f"numbers__{tool}"
    assert send(hub, server, name, {"value": 10**20})["structuredContent"] == {"value": 10**20}


def test_they_are_checked_against_the_schema(hub: Hub) -> None:
    result = send(hub, "numbers", "small", {"value": 10**20})
    assert result["isError"] and "100000000000000000000" in result["content"][0]["text"]
    assert "maximum" in result["content"][0]["text"]
    assert send(hub, "numbers", "small", {"value": -(10**20)})["structuredContent"] == -(10**20)


def test_plain_http_keeps_them(hub: Hub) -> None:
    headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    found = hub.client.post("/numbers/same", data=json.dumps({"value": 10**20}), headers=headers)
    assert (found.status_code, json.loads(found.data)) == (200, {"value": 10**20})
    form = hub.client.post("/numbers/same", data={"value": str(10**20)}, headers={"Sec-Fetch-Site": "same-origin"})
    assert (form.status_code, json.loads(form.data)) == (200, {"value": 10**20})


def test_the_native_interface_keeps_them(hub: Hub) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "numbers.same", "params": {"value": 10**20}}
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    found = hub.client.post("/rpc", data=json.dumps(message), headers=headers)
    assert b'"value":100000000000000000000' in found.data


def test_the_record_keeps_them(hub: Hub) -> None:
    send(hub, "numbers", "same", {"value": 10**25})
    hub.activity.flush()
    [record] = hub.activity.recent(Filter(server="numbers", tool="same"), 1).records
    assert record.arguments == {"value": 10**25}
    assert record.answer["structuredContent"] == {"value": 10**25}
    shown = hub.client.get(f"/activity/{record.id}.json")
    assert json.loads(shown.data)["arguments"] == {"value": 10**25}
    assert str(10**25) in hub.client.get(f"/activity/{record.id}", headers={"Accept": "text/html"}).text


def test_a_repeated_call_with_an_answer_keeps_them(hub: Hub) -> None:
    """The state of a question binds the arguments."""
    params: dict[str, Any] = {"name": "asks", "arguments": {"value": 10**20}}
    message, headers = modern_request("tools/call", params, {"elicitation": {"form": {}}})
    asked = exact(hub.raw("numbers", json.dumps(message).encode(), headers))
    assert asked["resultType"] == "input_required", asked
    answers = {key: {"action": "accept", "content": {"yes": True}} for key in asked["inputRequests"]}
    more = {"inputResponses": answers, "requestState": asked["requestState"]}
    message, headers = modern_request("tools/call", params | more, {"elicitation": {"form": {}}})
    assert exact(hub.raw("numbers", json.dumps(message).encode(), headers))["structuredContent"] == {"value": 10**20}


def test_a_task_keeps_them(hub: Hub) -> None:
    capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    message, headers = modern_request("tools/call", {"name": "late", "arguments": {"value": 10**20}}, capabilities)
    task = exact(hub.raw("numbers", json.dumps(message).encode(), headers))["taskId"]

    def poll() -> Any:
        return exact(hub.modern("numbers", "tasks/get", {"taskId": task}, capabilities))

    until(lambda: poll()["status"] != "working", "the task has ended")
    assert poll()["result"]["structuredContent"] == {"value": 10**20}


def test_an_approval_is_for_exactly_these_digits(hub: Hub) -> None:
    assert "approv" in send(hub, "asked", "same", {"value": 10**20})["content"][0]["text"]
    waiting = hub.client.get("/approvals.json")
    assert [json.loads(one["arguments"]) for one in json.loads(waiting.data)["approvals"]] == [{"value": 10**20}]


def test_a_state_that_cannot_hold_them_says_so(hub: Hub) -> None:
    result = send(hub, "numbers", "keep", {"value": 10**20})
    assert result["isError"] and "64-bit" in result["content"][0]["text"]


def test_a_number_of_thousands_of_digits_is_refused_with_the_reason(hub: Hub) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"same","arguments":{"value":%s}}}'
    answer = hub.raw("numbers", body % (b"9" * 5000), {"MCP-Protocol-Version": "2025-06-18"})
    assert answer.status == 400 and "digits" in answer.error["message"]
    result = send(hub, "numbers", "power", {"bits": 5000})
    assert result["isError"] and "4096 bits" in result["content"][0]["text"]


def test_a_mount_passes_them_on(tmp_path: Path) -> None:
    inner = Hub(tmp_path / "inner", {"numbers.py": SOURCE}, isolation="inline")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = make_server("127.0.0.1", port, inner.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    outer = Hub(tmp_path / "outer", {"far.json": json.dumps({"url": f"http://127.0.0.1:{port}/mcp/numbers"})})
    try:
        until(lambda: "same" in outer.catalogue.find("far").tools, "the mount lists its tools")
        assert send(outer, "far", "same", {"value": 10**20})["structuredContent"] == {"value": 10**20}
        assert send(outer, "far", "power", {"bits": 70})["structuredContent"] == 2**70
        assert send(outer, "far", "same", {"value": 2**64}, "2025-06-18")["structuredContent"] == {"value": 2**64}
    finally:
        outer.close()
        server.shutdown()
        thread.join()
        server.server_close()
        inner.close()
