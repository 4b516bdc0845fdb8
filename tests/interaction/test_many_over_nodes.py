"""Streams, subscriptions and tasks in great number over three nodes: each request goes to the next node.

`PATCHBAY_NODE_MANY` is the number of each; 10,000 takes some minutes. None may be wrong, lost or doubled.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from mcp_types import ToolListChangedNotification

from patchbay.activation import TASKS
from tests.databases import PostgresqlServer
from tests.hubs import modern_request
from tests.interaction.nodes import Nodes, RoundRobin, running_nodes
from tests.interaction.peers import MODERN, texts
from tests.waiting import BOUND, until, until_async

pytestmark = pytest.mark.process

MANY = int(os.environ.get("PATCHBAY_NODE_MANY", "60"))
CLIENTS = 12
"""Clients at a time."""

LISTENING = 30
"""Subscriptions that are open at a time."""

STEPS = 5
"""Progress notifications of a stream."""

DEFINITION = '''"""A server for clients of several nodes."""


def work(context, steps: int, name: str) -> str:
    """Report a number of steps."""
    for step in range(1, steps + 1):
        context.progress(step, steps)
    return f"{name} is done"


def tell(context) -> str:
    """Say that the tools changed."""
    context.changed("tools")
    return "told"


def later(context, text: str) -> str:
    """Answer in the background."""
    context.background(required=True)
    context.progress(1, 1)
    return f"later: {text}"
'''

MODES = pytest.mark.parametrize("mode", ["legacy", MODERN])


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, postgresql: PostgresqlServer) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("nodes")
    (folder / "servers").mkdir()
    (folder / "servers" / "many.py").write_text(DEFINITION)
    (folder / "servers" / "many.mcp.json").write_text('{"auto_discover": true, "isolation": "inline"}')
    options = ("--listeners", "4000", "--connections", "4000")
    with running_nodes(folder, postgresql.new_schema(), 3, *options) as found:
        until(lambda: all(hub.get("/mcp/many")[0] != 404 for hub in found.hubs), "all nodes serve it")
        yield found


def is_spread(transport: RoundRobin, nodes: Nodes) -> bool:
    """Whether each request went to another node than the one before."""
    asked = transport.asked
    return set(asked) == set(nodes.ports) and all(one != other for one, other in pairwise(asked))


@MODES
def test_streams_have_all_their_progress_in_order_and_their_own_result(nodes: Nodes, mode: str) -> None:
    """35.13"""

    async def talk(number: int) -> int:
        done = 0
        async with nodes.client("many", mode) as (client, transport):
            for stream in range(number, MANY, CLIENTS):
                seen: list[float] = []

                async def note(progress: float, total: float | None, message: str | None, kept: Any = seen) -> None:
                    kept.append(progress)

                given = {"steps": STEPS, "name": f"stream {stream}"}
                result = await client.call_tool("work", given, progress_callback=note)
                assert texts(result.content) == f"stream {stream} is done"
                assert seen == list(range(1, STEPS + 1))
                done += 1
            assert is_spread(transport, nodes)
        return done

    async def conversation() -> int:
        return sum(await asyncio.gather(*(talk(number) for number in range(CLIENTS))))

    assert asyncio.run(conversation()) == MANY


def test_each_subscription_hears_of_each_change_once(nodes: Nodes) -> None:
    """35.15: those of 2026-07-28, which are at all nodes; the change is announced at one of them."""

    async def conversation() -> int:
        heard = 0
        async with nodes.client("many", MODERN) as (client, transport):
            for _ in range(0, MANY, LISTENING):
                async with AsyncExitStack() as stack:
                    listening = [
                        await stack.enter_async_context(client.listen(tools_list_changed=True))
                        for _ in range(LISTENING)
                    ]
                    for _ in range(2):
                        assert texts((await client.call_tool("tell", {})).content) == "told"
                        for one in listening:
                            await asyncio.wait_for(anext(aiter(one)), BOUND)
                        heard += LISTENING
            assert is_spread(transport, nodes)
        return heard // 2

    assert asyncio.run(conversation()) >= MANY


async def hear_in_sessions(nodes: Nodes) -> int:
    """Open sessions, announce two changes; return how many sessions heard of exactly two."""
    told = [0] * LISTENING
    async with AsyncExitStack() as stack:
        clients = []
        for number in range(LISTENING):

            async def receive(message: Any, place: int = number) -> None:
                told[place] += isinstance(message, ToolListChangedNotification)

            opened = nodes.client("many", "legacy", message_handler=receive)
            clients.append(await stack.enter_async_context(opened))
        await until_async(lambda: all(transport.listening for _, transport in clients), "all listen")
        for _ in range(2):
            assert texts((await clients[0][0].call_tool("tell", {})).content) == "told"
        await until_async(lambda: min(told) >= 2, lambda: f"all have heard of it: {told}")
    return told.count(2)


def test_each_session_hears_of_each_change_once(nodes: Nodes) -> None:
    """35.15: sessions of 2025-11-25, each with a stream at one node and its other requests at the next ones."""

    async def conversation() -> tuple[int, int]:
        rounds = [await hear_in_sessions(nodes) for _ in range(0, MANY, LISTENING)]
        return sum(rounds), len(rounds) * LISTENING

    heard, opened = asyncio.run(conversation())
    assert heard == opened


def test_each_task_ends_with_its_own_result_whichever_node_is_asked(nodes: Nodes) -> None:
    """35.14: the official clients have no tasks of 2026-07-28, so the requests are plain."""

    async def ask(client: httpx2.AsyncClient, method: str, params: dict[str, Any]) -> dict[str, Any]:
        body, headers = modern_request(method, params, {"extensions": {TASKS: {}}})
        known = {"Accept": "application/json, text/event-stream", **headers}
        answer = await client.post(f"http://127.0.0.1:{nodes.ports[0]}/mcp/many", json=body, headers=known)
        found: dict[str, Any] = answer.json()
        assert "result" in found, found
        return dict(found["result"])

    async def talk(number: int) -> set[str]:
        ids = set()
        transport = RoundRobin(nodes.ports)
        async with httpx2.AsyncClient(transport=transport, timeout=BOUND) as client:
            for task in range(number, MANY, CLIENTS):
                begun = await ask(client, "tools/call", {"name": "later", "arguments": {"text": f"task {task}"}})
                id = begun["taskId"]

                async def ended(id: str = id) -> dict[str, Any] | None:
                    found = await ask(client, "tasks/get", {"taskId": id})
                    return found if found["status"] not in ("working", "submitted") else None

                found = await until_async(ended, "the end of a task")
                assert (found["status"], found["result"]["content"][0]["text"]) == ("completed", f"later: task {task}")
                ids.add(id)
            assert is_spread(transport, nodes)
        return ids

    async def conversation() -> set[str]:
        return set().union(*await asyncio.gather(*(talk(number) for number in range(CLIENTS))))

    assert len(asyncio.run(conversation())) == MANY
