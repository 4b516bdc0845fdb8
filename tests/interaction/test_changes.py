"""What is saved in the servers folder is live within two seconds, for clients that are connected already.

Two seconds are three looks at the folder with time to spare: a change is seen by one look, and served at the next that
finds the same. How often the hub looks is asserted; a busy machine may take longer for each look, so no clock is read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp
import pytest
from mcp_types import ToolListChangedNotification

from patchbay.catalogue.watching.folder import WatchedFolder
from tests.interaction.peers import MODERN, PythonSdk, names, texts
from tests.interaction.programs import Hub, nodes_of_run
from tests.waiting import BOUND, until_async

pytestmark = pytest.mark.process

LIVE = 2.0
"""Seconds after which a saved file has to be live."""

LOOKS = 3
"""Looks at the folder until a saved file is live: one before it, one that sees it, one that finds the same."""

ONE = 'def one() -> str:\n    """Say one."""\n    return "1"\n'
TWO = ONE + '\n\ndef two() -> str:\n    """Say two."""\n    return "2"\n'


def drop(hub: Hub, name: str, text: str) -> None:
    """Save a file the way editors do: beside its place, then moved there."""
    draft = hub.servers / f".{name}.draft"
    draft.write_text(text, "utf-8")
    draft.rename(hub.servers / name)


@asynccontextmanager
async def connected(url: str, mode: str, **options: Any) -> AsyncIterator[mcp.Client]:
    async with mcp.Client(url, mode=mode, read_timeout_seconds=BOUND, cache=None, **options) as client:
        yield client


def test_the_hub_looks_often_enough_for_a_change_to_be_live_within_two_seconds() -> None:
    assert LOOKS * WatchedFolder.every < LIVE


@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_a_dropped_in_file_is_known_to_a_connected_client(hub: Hub, mode: str) -> None:
    name = f"dropped_{mode.replace('-', '_')}"

    async def conversation() -> None:
        async with connected(hub.endpoint("mcp"), mode) as client:

            async def listed() -> bool:
                result = await client.call_tool("list_servers", {})
                return name in [one["name"] for one in json.loads(texts(result.content))]

            assert not await listed()
            drop(hub, f"{name}.py", ONE)
            await until_async(listed)

    asyncio.run(conversation())
    assert PythonSdk(mode).tools(hub.endpoint(name)) == ["one"]


@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_a_saved_change_is_listed_and_can_be_called(hub: Hub, mode: str) -> None:
    name = f"edited_{mode.replace('-', '_')}"
    drop(hub, f"{name}.py", ONE)

    async def conversation() -> None:
        async with connected(hub.endpoint(name), mode) as client:
            assert names((await client.list_tools()).tools) == ["one"]
            drop(hub, f"{name}.py", TWO)

            async def listed() -> bool:
                """Whether each node lists it: a request may reach a node that has not heard of the change yet."""
                answers = [await client.list_tools() for _ in range(nodes_of_run())]
                return all(names(answer.tools) == ["one", "two"] for answer in answers)

            await until_async(listed)
            assert texts((await client.call_tool("two", {})).content) == "2"

    asyncio.run(until_async(lambda: served(hub, name)))
    asyncio.run(conversation())


async def served(hub: Hub, name: str) -> bool:
    """Whether the hub lists a server."""
    async with connected(hub.endpoint("mcp"), "legacy") as client:
        result = await client.call_tool("list_servers", {})
        return name in [one["name"] for one in json.loads(texts(result.content))]


def test_a_client_with_a_handshake_is_notified_of_a_change(hub: Hub) -> None:
    drop(hub, "told.py", ONE)

    async def conversation() -> None:
        changed = asyncio.Event()

        async def receive(message: Any) -> None:
            if isinstance(message, ToolListChangedNotification):
                changed.set()

        async with connected(hub.endpoint("told"), "legacy", message_handler=receive) as client:
            tools = client.server_capabilities.tools
            assert tools is not None and tools.list_changed
            assert names((await client.list_tools()).tools) == ["one"]
            drop(hub, "told.py", TWO)
            await asyncio.wait_for(changed.wait(), BOUND)
            assert names((await client.list_tools()).tools) == ["one", "two"]

    asyncio.run(until_async(lambda: served(hub, "told")))
    asyncio.run(conversation())


def test_a_listening_client_is_notified_of_a_change(hub: Hub) -> None:
    drop(hub, "heard.py", ONE)

    async def conversation() -> None:
        async with (
            connected(hub.endpoint("heard"), MODERN) as client,
            client.listen(tools_list_changed=True) as subscription,
        ):
            assert subscription.honored.tools_list_changed
            drop(hub, "heard.py", TWO)
            await asyncio.wait_for(anext(aiter(subscription)), BOUND)
            assert names((await client.list_tools()).tools) == ["one", "two"]

    asyncio.run(until_async(lambda: served(hub, "heard")))
    asyncio.run(conversation())


def test_a_broken_file_takes_down_itself_alone(hub: Hub) -> None:
    drop(hub, "broken.py", "def broken(:\n")
    drop(hub, "whole.py", ONE)
    asyncio.run(until_async(lambda: served(hub, "whole")))
    assert not asyncio.run(served(hub, "broken"))
    assert PythonSdk(MODERN).call(hub.endpoint("whole"), "one", {}) == "1"
