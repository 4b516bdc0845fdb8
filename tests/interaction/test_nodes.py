"""Three hubs on one PostgreSQL without affinity: the official client, each request of which reaches another node."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import mcp
import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from patchbay.activation import TASKS
from tests.databases import PostgresqlServer
from tests.hubs import modern_request
from tests.interaction.nodes import Nodes, running_nodes
from tests.interaction.peers import MODERN, names, texts
from tests.redises import RedisServer
from tests.serving.running import Hub, refused
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

Json = dict[str, Any]

MODES = pytest.mark.parametrize("mode", ["legacy", MODERN])
CALLS = int(os.environ.get("PATCHBAY_NODE_CALLS", "30"))

DEFINITION = '''"""A server for clients of several nodes."""

import time


def say(text: str) -> str:
    """Say it again."""
    return text


def work(context, steps: int) -> str:
    """Report a number of steps."""
    for step in range(1, steps + 1):
        context.progress(step, steps)
    return f"{steps} steps are done"


def ask(context) -> str:
    """Ask for a name."""
    answer = context.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return f"hello {answer['content']['name']}"


def wait(context) -> str:
    """Wait until it is cancelled."""
    for step in range(1, 1_000_000):
        context.progress(step, 1_000_000)
        time.sleep(0.05)


def later(context, text: str) -> str:
    """Answer in the background, after a question."""
    context.background(required=True)
    name = context.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})["content"]["name"]
    return f"{text}, {name}"
'''

PATIENT = '{"auto_discover": true, "timeout": 1000}'
"""A call ends in time only if it is cancelled."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, postgresql: PostgresqlServer) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("nodes")
    (folder / "servers").mkdir()
    (folder / "servers" / "several.py").write_text(DEFINITION)
    (folder / "servers" / "several.mcp.json").write_text(PATIENT)
    with running_nodes(folder, postgresql.new_schema(), 3) as found:
        until(lambda: all(hub.get("/mcp/several")[0] != 404 for hub in found.hubs), "all nodes serve it")
        yield found


async def elicit(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


@MODES
def test_calls_with_progress_are_right_whichever_node_answers(nodes: Nodes, mode: str) -> None:
    """35.13: `PATCHBAY_NODE_CALLS` says how many."""

    async def conversation() -> set[int]:
        async with nodes.client("several", mode) as (client, transport):
            assert "say" in names((await client.list_tools()).tools)
            for number in range(CALLS):
                seen: list[float] = []

                async def note(progress: float, total: float | None, message: str | None, kept: Any = seen) -> None:
                    kept.append(progress)

                result = await client.call_tool("say", {"text": f"number {number}"})
                assert texts(result.content) == f"number {number}"
                if number % 5 == 0:
                    result = await client.call_tool("work", {"steps": 3}, progress_callback=note)
                    assert (texts(result.content), seen) == ("3 steps are done", [1, 2, 3])
            return set(transport.asked)

    assert asyncio.run(conversation()) == set(nodes.ports)


@MODES
def test_many_clients_at_once_get_their_own_answers(nodes: Nodes, mode: str) -> None:
    """35.13"""

    async def talk(client_number: int) -> None:
        async with nodes.client("several", mode) as (client, _):
            for number in range(8):
                text = f"{client_number}: {number}"
                assert texts((await client.call_tool("say", {"text": text})).content) == text

    async def conversation() -> None:
        await asyncio.gather(*(talk(number) for number in range(8)))

    asyncio.run(conversation())


@MODES
def test_a_question_of_a_tool_is_answered_through_another_node(nodes: Nodes, mode: str) -> None:
    """35.14: the call runs at one node; the answer of the client reaches the next one."""

    async def conversation() -> None:
        async with nodes.client("several", mode, elicitation_callback=elicit) as (client, _):
            for _ in range(3):
                assert texts((await client.call_tool("ask", {})).content) == "hello Ada"

    asyncio.run(conversation())


def test_a_change_at_one_node_is_heard_at_another(nodes: Nodes) -> None:
    """35.15: one subscription at each node."""

    async def conversation() -> None:
        async with (
            mcp.Client(f"http://127.0.0.1:{nodes.ports[2]}/mcp/changing", mode=MODERN) as client,
            client.listen(tools_list_changed=True) as subscription,
        ):
            (nodes.servers / "changing.py").write_text("def two() -> str:\n    return ''\n")
            await asyncio.wait_for(anext(aiter(subscription)), BOUND)
            assert names((await client.list_tools()).tools) == ["two"]

    (nodes.servers / "changing.py").write_text("def one() -> str:\n    return ''\n")
    until(lambda: all(hub.get("/mcp/changing")[0] != 404 for hub in nodes.hubs), "all nodes serve it")
    asyncio.run(conversation())


class RawClient:
    """Requests of one session in raw HTTP, to a node that the test names."""

    def __init__(self, nodes: Nodes, revision: str = "2025-11-25") -> None:
        self._nodes = nodes
        self._revision = revision
        self.session = ""

    def open(self, node: int) -> None:
        params = {
            "protocolVersion": self._revision,
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        self.session = self.send(node, "initialize", params)[1]["mcp-session-id"]

    def send(self, node: int, method: str, params: Any, verb: str = "POST") -> tuple[int, Any, Any]:
        """Send a request; return status, headers and the message of the answer, the last one of a stream."""
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": self._revision}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        url = f"http://127.0.0.1:{self._nodes.ports[node]}/mcp/several"
        answer = httpx2.request(verb, url, headers=headers, json=body if verb == "POST" else None, timeout=BOUND)
        lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
        text = lines[-1] if lines else answer.text
        return answer.status_code, answer.headers, json.loads(text) if text.startswith("{") else text


def test_a_session_that_one_node_ends_has_ended_at_the_others(nodes: Nodes) -> None:
    """35.14"""
    client = RawClient(nodes)
    client.open(0)
    assert [client.send(node, "ping", {})[0] for node in range(3)] == [200, 200, 200]
    assert client.send(1, "", {}, verb="DELETE")[0] in (200, 202, 204)
    until(lambda: [client.send(node, "ping", {})[0] for node in range(3)] == [404, 404, 404], "the session has ended")


def test_a_call_is_cancelled_through_another_node(nodes: Nodes) -> None:
    """35.14: else the tool would go on for a thousand seconds."""
    client = RawClient(nodes)
    client.open(0)
    connection = http.client.HTTPConnection("127.0.0.1", nodes.ports[0], timeout=BOUND)
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
        "Mcp-Session-Id": client.session,
        "Content-Type": "application/json",
    }
    params = {"name": "wait", "arguments": {}, "_meta": {"progressToken": "t"}}
    call = {"jsonrpc": "2.0", "id": "the call", "method": "tools/call", "params": params}
    connection.request("POST", "/mcp/several", json.dumps(call), headers)
    stream = connection.getresponse()
    while b"progress" not in stream.readline():
        pass
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "the call"}}
    url = f"http://127.0.0.1:{nodes.ports[1]}/mcp/several"
    assert httpx2.post(url, json=cancel, headers=headers, timeout=BOUND).status_code == 202
    rest = stream.read()
    connection.close()
    assert b'"result"' not in rest


def modern(nodes: Nodes, node: int, method: str, params: Json) -> Json:
    """Send a request of 2026-07-28 to a node; return its result."""
    body, headers = modern_request(method, params, {"extensions": {TASKS: {}}, "elicitation": {}})
    url = f"http://127.0.0.1:{nodes.ports[node]}/mcp/several"
    known = {"Accept": "application/json, text/event-stream", **headers}
    answer = httpx2.post(url, json=body, headers=known, timeout=BOUND)
    found: Json = answer.json()
    assert "result" in found, found
    return dict(found["result"])


def test_a_task_of_one_node_is_read_answered_and_cancelled_through_the_others(nodes: Nodes) -> None:
    """35.14: the node that began it runs it."""
    ids = [
        modern(nodes, 0, "tools/call", {"name": "later", "arguments": {"text": text}})["taskId"] for text in ("a", "b")
    ]

    def status(node: int, id: str, wanted: str) -> Json | None:
        found = modern(nodes, node, "tasks/get", {"taskId": id})
        return found if found["status"] == wanted else None

    for id in ids:
        asking = until(partial(status, 1, id, "input_required"), "the task asks")
        assert len(asking["inputRequests"]) == 1
    (key,) = asking["inputRequests"]
    answer = {"action": "accept", "content": {"name": "Ada"}}
    modern(nodes, 2, "tasks/update", {"taskId": ids[1], "inputResponses": {key: answer}})
    done = until(lambda: status(1, ids[1], "completed"), "the end of the task")
    assert done["result"]["content"] == [{"type": "text", "text": "b, Ada"}]
    modern(nodes, 1, "tasks/cancel", {"taskId": ids[0]})
    until(lambda: status(2, ids[0], "cancelled"), "the task is cancelled")


@MODES
def test_clients_go_on_when_a_node_is_killed(tmp_path: Path, database: str, mode: str) -> None:
    """35.16: a balancer sends nothing to a node that is gone; sessions do not notice."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "several.py").write_text(DEFINITION)

    async def conversation(nodes: Nodes) -> None:
        async with nodes.client("several", mode) as (client, transport):
            assert texts((await client.call_tool("say", {"text": "before"})).content) == "before"
            kill(nodes.hubs[0])
            transport.use(nodes.ports[1:])
            for number in range(6):
                assert texts((await client.call_tool("say", {"text": str(number)})).content) == str(number)

    with running_nodes(tmp_path, database, 2) as nodes:
        until(lambda: all(hub.get("/mcp/several")[0] != 404 for hub in nodes.hubs), "all nodes serve it")
        asyncio.run(conversation(nodes))
        if mode == MODERN:  # the other node takes over the folder when the lease of the killed one ends
            (tmp_path / "servers" / "later.py").write_text("def later() -> str:\n    return ''\n")
            until(lambda: nodes.hubs[1].get("/mcp/later")[0] != 404, "the other node watches the folder")


@MODES
def test_a_node_that_is_stopped_holds_up_no_other_and_goes_on_later(nodes: Nodes, mode: str) -> None:
    """35.16: as a machine that is suspended; it may hold no lock of the database."""
    hub = nodes.hubs[1]
    processes = (hub.process.pid, *hub.workers())

    async def conversation() -> None:
        async with nodes.client("several", mode) as (client, transport):
            for process in processes:
                os.kill(process, signal.SIGSTOP)
            try:
                transport.use([nodes.ports[0], nodes.ports[2]])
                for number in range(10):
                    assert texts((await client.call_tool("say", {"text": str(number)})).content) == str(number)
            finally:
                for process in processes:
                    os.kill(process, signal.SIGCONT)
            transport.use(nodes.ports)
            for number in range(6):
                assert texts((await client.call_tool("say", {"text": str(number)})).content) == str(number)

    asyncio.run(conversation())


def test_the_end_of_one_node_ends_no_stream_of_another(tmp_path: Path, database: str) -> None:
    """35.16: nodes are restarted one after the other."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "several.py").write_text(DEFINITION)

    async def conversation(nodes: Nodes) -> None:
        async with (
            mcp.Client(f"http://127.0.0.1:{nodes.ports[1]}/mcp/several", mode=MODERN) as client,
            client.listen(tools_list_changed=True) as subscription,
        ):
            assert await asyncio.to_thread(nodes.hubs[0].end) == 0
            (nodes.servers / "several.py").write_text(DEFINITION.replace("def say(", "def tell("))
            await asyncio.wait_for(anext(aiter(subscription)), BOUND)
            assert "tell" in names((await client.list_tools()).tools)

    with running_nodes(tmp_path, database, 2) as nodes:
        until(lambda: all(hub.get("/mcp/several")[0] != 404 for hub in nodes.hubs), "all nodes serve it")
        asyncio.run(conversation(nodes))


def kill(hub: Hub) -> None:
    """Kill a whole node at once."""
    for process in (*hub.workers(), hub.process.pid):
        os.kill(process, signal.SIGKILL)


def test_a_node_with_another_key_does_not_start(tmp_path: Path, database: str) -> None:
    """35.12"""
    with running_nodes(tmp_path, database, 1):
        other = tmp_path / "other"
        other.mkdir()
        (other / "key").write_text("cd" * 32)
        found = refused(other, "--store", database, "--key-file", str(other / "key"))
        assert found.returncode == 2 and "found that of another hub" in found.stderr


def test_the_hub_is_not_ready_while_the_database_is_away_and_goes_on_by_itself(tmp_path: Path) -> None:
    """35.8: a tool answers meanwhile; /readyz is 503, and 200 again without a restart."""
    server = PostgresqlServer()
    with ExitStack() as stack:
        stack.callback(server.close)
        (tmp_path / "servers").mkdir()
        (tmp_path / "servers" / "several.py").write_text(DEFINITION)
        nodes = stack.enter_context(running_nodes(tmp_path, server.new_schema(), 1))
        (hub,) = nodes.hubs
        until(lambda: hub.get("/readyz")[0] == 200, "ready")
        server.stop()
        until(lambda: hub.get("/readyz")[0] == 503, "not ready")
        said = modern(nodes, 0, "tools/call", {"name": "say", "arguments": {"text": "meanwhile"}})
        assert said["content"] == [{"type": "text", "text": "meanwhile"}]
        server.start()
        until(lambda: hub.get("/readyz")[0] == 200, "ready again")


def test_a_hub_whose_redis_is_away_says_so_and_goes_on(tmp_path: Path, database: str) -> None:
    """35.9: /readyz stays 200; a change of the folder at one node is heard at the other when Redis is back."""
    with closing(RedisServer()) as server, running_nodes(tmp_path, database, 2, "--bus-address", server.address) as two:
        until(lambda: two.hubs[1].get("/readyz") == (200, b"ready\n"), "ready")
        server.stop()
        warning = b"ready, but messages of other machines wait"
        until(lambda: all_say(two, 200, warning), "both say that Redis is away")
        (two.servers / "several.py").write_text(DEFINITION)
        until(lambda: two.hubs[0].get("/mcp/several")[0] != 404, "the node that watches the folder serves it")
        said = modern(two, 0, "tools/call", {"name": "say", "arguments": {"text": "meanwhile"}})
        assert said["content"] == [{"type": "text", "text": "meanwhile"}]
        server.start()
        until(lambda: all_say(two, 200, b"ready\n"), "ready again")
        until(lambda: two.hubs[1].get("/mcp/several")[0] != 404, "both nodes serve it")


def all_say(nodes: Nodes, status: int, begin: bytes) -> bool:
    """Whether `/readyz` of each node has this status and begins so."""
    return all(answer[0] == status and answer[1].startswith(begin) for answer in map(ready, nodes.hubs))


def ready(hub: Hub) -> tuple[int, bytes]:
    """Return the answer of `/readyz`."""
    return hub.get("/readyz")
