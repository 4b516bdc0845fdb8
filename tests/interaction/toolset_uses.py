"""One toolset, used by every independent client over several ways: each has to list and answer the same.

`compare` gives the differences as sentences; the tests and the acceptance run of toolsets share it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import mcp
from mcp.client.stdio import StdioServerParameters

from tests.checkout import ROOT
from tests.interaction.mounts import until_tools_are_listed
from tests.interaction.peers import PEERS, Json, names, texts
from tests.interaction.programs import Hub, plain_environment
from tests.waiting import BOUND


class ToolsPeer(Protocol):
    """A client that lists and calls tools at an endpoint. Failures are raised."""

    def tools(self, server: str) -> list[str]:
        """The names of all tools."""
        ...

    def call(self, server: str, tool: str, arguments: Json) -> str:
        """The text a tool answers with."""
        ...


@dataclass(frozen=True)
class ToolsetCall:
    """A tool of a toolset: its origin, what callers send, what the origin gets, and the arguments that are fixed."""

    name: str
    origin: str
    arguments: Json
    fixed: Json = field(default_factory=dict)

    @property
    def server(self) -> str:
        """The server of the origin."""
        return self.origin.partition(".")[0]

    @property
    def tool(self) -> str:
        """The name of the tool at its origin."""
        return self.origin.partition(".")[2]


def describe_toolset(calls: Sequence[ToolsetCall]) -> Json:
    """Return the fields of the toolset of these calls, as the page writes them."""
    tools = {
        one.name: {"from": one.origin, "arguments": {name: {"value": value} for name, value in one.fixed.items()}}
        for one in calls
        if one.fixed or one.name != one.tool
    }
    included = [one.origin for one in calls if one.name not in tools]
    return {"kind": "toolset", "include": included, "tools": tools}


@contextmanager
def all_peers(home: Path) -> Iterator[dict[str, ToolsPeer]]:
    """Every independent client, in the revisions that it has."""
    with ExitStack() as stack:
        peers: dict[str, ToolsPeer] = {}
        for name, begin in PEERS.items():
            folder = home / name
            folder.mkdir(parents=True)
            peers[name] = stack.enter_context(begin(folder))
        yield peers


def call_origins(peer: ToolsPeer, hub_url: str, calls: Sequence[ToolsetCall]) -> dict[str, str]:
    """Return what the origin of each call answers, without the toolset."""
    return {one.name: peer.call(f"{hub_url}/mcp/{one.server}", one.tool, one.arguments | one.fixed) for one in calls}


def compare(
    peers: Mapping[str, ToolsPeer], way: str, endpoint: str, calls: Sequence[ToolsetCall], expected: Mapping[str, str]
) -> list[str]:
    """Use a toolset with every client; return a sentence for each difference from what the origins answer."""
    found = []
    for label, peer in peers.items():
        listed = set(peer.tools(endpoint))
        if listed != set(expected):
            found.append(f"{way}, {label}: it lists {sorted(listed ^ set(expected))} otherwise")
        for one in calls:
            said = peer.call(endpoint, one.name, one.arguments)
            if said != expected[one.name]:
                found.append(f"{way}, {label}, {one.name}: {said[:100]!r}, and the origin {expected[one.name][:100]!r}")
        found += [
            f"{way}, {label}, {one.name}: it takes the fixed argument {name}"
            for one in calls
            for name, value in one.fixed.items()
            if takes(peer, endpoint, one, {name: value})
        ]
    return found


def takes(peer: ToolsPeer, endpoint: str, one: ToolsetCall, more: Mapping[str, Any]) -> bool:
    """Whether a call with more arguments is answered without an error."""
    try:
        peer.call(endpoint, one.name, {**one.arguments, **more})
    except Exception:  # each library has errors of its own
        return False
    return True


def command(hub_data: Path, servers: Path, *words: str) -> list[str]:
    """Return a command of the hub that runs on a data folder."""
    where = ["--data", str(hub_data), "--servers", str(servers)] if words[0] == "stdio" else []
    return [sys.executable, "-m", "patchbay", *words, *where]


@dataclass(frozen=True)
class OverStdio:
    """The official Python SDK with `patchbay stdio NAME`; an endpoint is the name of a server here."""

    data: Path
    servers: Path
    mode: str = "legacy"

    def tools(self, server: str) -> list[str]:
        return names(self._ask(server, lambda client: client.list_tools()).tools)

    def call(self, server: str, tool: str, arguments: Json) -> str:
        result = self._ask(server, lambda client: client.call_tool(tool, arguments))
        assert not result.is_error, texts(result.content)
        return texts(result.content)

    def _ask(self, server: str, ask: Callable[[mcp.Client], Awaitable[Any]]) -> Any:
        program, *words = command(self.data, self.servers, "stdio", server)
        parameters = StdioServerParameters(
            command=program, args=words, env=plain_environment(self.data.parent), cwd=ROOT
        )

        async def conversation() -> Any:
            async with mcp.Client(parameters, mode=self.mode, read_timeout_seconds=BOUND) as client:
                return await ask(client)

        return asyncio.run(conversation())


@dataclass(frozen=True)
class InRoom:
    """A client of a room in which one server is announced: its tools are `NAME__tool` there."""

    peer: ToolsPeer
    prefix: str

    def tools(self, server: str) -> list[str]:
        return [one.removeprefix(self.prefix) for one in self.peer.tools(server) if one.startswith(self.prefix)]

    def call(self, server: str, tool: str, arguments: Json) -> str:
        return self.peer.call(server, f"{self.prefix}{tool}", arguments)


@contextmanager
def announced(hub: Hub, data: Path, server: str, room: str = "demo") -> Iterator[tuple[str, str]]:
    """Announce a server of a hub in a room by its bare name; yield the endpoint of the room and the prefix there."""
    environment = plain_environment(data.parent) | {"PATCHBAY_DATA": str(data), "PATCHBAY_SERVERS": str(hub.servers)}
    made = command(data, hub.servers, "room", "create", room)
    subprocess.run(made, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=BOUND)
    share = command(data, hub.servers, "room", "announce", room, server)
    with subprocess.Popen(share, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            until_tools_are_listed(hub.endpoint(f"room.{room}"))
            yield hub.endpoint(f"room.{room}"), f"{server}__"
        finally:
            process.terminate()
            process.wait(BOUND)
