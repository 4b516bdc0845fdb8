"""The clients that use the animals, directly and through the hub: what each of them lists and gets from one call."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import fastmcp
import mcp
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters

from tests.checkout import ROOT
from tests.interaction.peers import MODERN, typescript_sdk
from tests.waiting import BOUND

LEAVE_SECONDS = 0.3
Json = dict[str, Any]
Call = tuple[str, Json]


@dataclass(frozen=True)
class Seen:
    """What a client saw: the names of the tools, and the result of the call."""

    tools: list[str]
    content: Any
    structured: Any
    is_error: bool


def make_seen(tools: list[str], result: Json) -> Seen:
    """Make it from names, and from a result as it is in JSON."""
    parts = [{key: part[key] for key in ("type", "text") if key in part} for part in result.get("content", [])]
    return Seen(sorted(tools), parts, result.get("structuredContent"), bool(result.get("isError")))


def use_python(server: Any, mode: str, call: Call) -> Seen:
    """Use the official Python SDK: `server` is a URL, a program or a transport; `mode` an era or a revision."""

    async def conversation() -> Seen:
        async with mcp.Client(server, mode=mode, read_timeout_seconds=BOUND) as client:
            tools = [one.name for one in (await client.list_tools()).tools]
            result = await client.call_tool(*call)
            return make_seen(tools, result.model_dump(by_alias=True, mode="json", exclude_none=True))

    return asyncio.run(conversation())


def use_fastmcp(url: str, call: Call) -> Seen:
    """Use FastMCP's client, which chooses the revision itself."""

    async def conversation() -> Seen:
        async with fastmcp.Client(url, timeout=BOUND) as client:
            tools = [one.name for one in await client.list_tools()]
            result = await client.call_tool_mcp(*call)
            return make_seen(tools, result.model_dump(by_alias=True, mode="json", exclude_none=True))

    return asyncio.run(conversation())


def use_directly(transport: str, address: Any, call: Call) -> Seen | str:
    """Use an animal without the hub, with the official Python SDK; return the error where that fails."""
    server = sse_client(address, timeout=BOUND, sse_read_timeout=BOUND) if transport == "sse" else address
    if isinstance(address, list):
        environment = {"PYTHONPATH": str(ROOT)}
        server = StdioServerParameters(command=address[0], args=address[1:], env=environment)
    try:
        return use_python(server, "legacy", call)
    except BaseExceptionGroup as problem:
        return f"{problem.exceptions[0]!r:.300}"
    except Exception as problem:
        return f"{problem!r:.300}"


class Clients:
    """The three clients in both eras; the TypeScript SDKs are one process each."""

    names = ("python, handshake", "python, newest", "fastmcp", "typescript 1", "typescript 2", "typescript, newest")

    def __init__(self, stack: ExitStack, home: Path) -> None:
        modes = {"typescript 1": "sdk-1", "typescript 2": "legacy", "typescript, newest": MODERN}
        self._node = {name: stack.enter_context(typescript_sdk(mode, home)) for name, mode in modes.items()}

    def use(self, name: str, url: str, call: Call) -> Seen | str:
        """Let a client list and call; return its error where a TypeScript SDK refuses the result."""
        if name in self._node:
            found = self._node[name].list_and_call(url, *call)
            return found if isinstance(found, str) else make_seen(found["tools"], found["result"])
        if name == "fastmcp":
            return use_fastmcp(url, call)
        return use_python(url, MODERN if name.endswith("newest") else "legacy", call)

    def leave(self, url: str, call: Call) -> None:
        """Begin a call and leave before its answer."""

        async def conversation() -> None:
            async with mcp.Client(url, mode="legacy") as client:
                with anyio.move_on_after(LEAVE_SECONDS):
                    await client.call_tool(*call)

        asyncio.run(conversation())
