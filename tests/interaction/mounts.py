"""Waiting for mounts: a hub serves a mount before it has reached the server behind it."""

from __future__ import annotations

import asyncio

import mcp

from tests.waiting import BOUND

POLL_SECONDS = 0.05


def until_tools_are_listed(address: str) -> None:
    """Wait until the server at an address lists its tools. Raises TimeoutError after BOUND seconds."""
    asyncio.run(asyncio.wait_for(_list_until_there_are_some(address), BOUND))


async def _list_until_there_are_some(address: str) -> None:
    async with mcp.Client(address, read_timeout_seconds=BOUND) as client:
        while not (await client.list_tools()).tools:
            await asyncio.sleep(POLL_SECONDS)
