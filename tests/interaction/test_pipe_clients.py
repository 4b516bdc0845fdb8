"""Independent clients, over `patchbay stdio` and over the pair of routes of 2024-11-05."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters

from tests.checkout import ROOT
from tests.interaction.peers import INSPECTOR, MODERN, NODE, names, texts
from tests.interaction.programs import Hub, plain_environment
from tests.interaction.test_clients import USES, Use
from tests.waiting import BOUND

pytestmark = [pytest.mark.process]


def command(server: str, folder: Path) -> list[str]:
    options = ["--data", str(folder / "data"), "--servers", str(ROOT / "servers"), "--enable", "everything"]
    return ["-m", "patchbay", "stdio", server, *options]


def parameters(server: str, folder: Path) -> StdioServerParameters:
    environment = plain_environment(folder)
    return StdioServerParameters(command=sys.executable, args=command(server, folder), env=environment, cwd=ROOT)


async def used(client: mcp.Client, use: Use) -> tuple[list[str], str, str, list[str]]:
    """What a client gets of one server: its tools, the text of a call, the text of a resource, its prompts."""
    result = await client.call_tool(use.tool, use.arguments)
    assert not result.is_error, texts(result.content)
    read = await client.read_resource(use.uri)
    tools, prompts = (await client.list_tools()).tools, (await client.list_prompts()).prompts
    return names(tools), texts(result.content), texts(read.contents), names(prompts)


OVER_A_PIPE = [
    *(pytest.param("legacy", "2025-11-25", use, id=f"legacy-{use.server}") for use in USES),
    *(pytest.param(MODERN, MODERN, use, id=f"{MODERN}-{use.server}") for use in USES),
    # How a client that looks for itself begins is the same for all servers.
    pytest.param("auto", MODERN, USES[0], id=f"auto-{USES[0].server}"),
]


@pytest.mark.parametrize(("mode", "revision", "use"), OVER_A_PIPE)
def test_the_python_sdk_uses_a_server_over_a_pipe(mode: str, revision: str, use: Use, tmp_path: Path) -> None:
    async def conversation() -> tuple[str, Any]:
        async with mcp.Client(parameters(use.server, tmp_path), mode=mode, read_timeout_seconds=BOUND) as client:
            return client.protocol_version, await used(client, use)

    spoken, (tools, said, read, prompts) = asyncio.run(conversation())
    assert spoken == revision
    assert use.tool in tools
    assert re.match(use.says, said)
    assert re.search(use.reads, read)
    assert prompts == use.prompts


@pytest.mark.parametrize("use", USES, ids=lambda use: use.server)
def test_the_python_sdk_uses_a_server_over_the_pair_of_routes(hub: Hub, use: Use) -> None:
    async def conversation() -> Any:
        transport = sse_client(hub.endpoint(use.server) + "/sse", timeout=BOUND, sse_read_timeout=BOUND)
        async with mcp.Client(transport, mode="legacy", read_timeout_seconds=BOUND) as client:
            return await used(client, use)

    tools, said, read, prompts = asyncio.run(conversation())
    assert use.tool in tools
    assert re.match(use.says, said)
    assert re.search(use.reads, read)
    assert prompts == use.prompts


def test_many_calls_at_a_time_over_the_pair_of_routes(hub: Hub) -> None:
    async def conversation() -> list[str]:
        transport = sse_client(hub.endpoint("hello") + "/sse", timeout=BOUND, sse_read_timeout=BOUND)
        async with mcp.Client(transport, mode="legacy", read_timeout_seconds=BOUND) as client:
            calls = [client.call_tool("hello", {"name": str(n)}) for n in range(30)]
            return [texts(result.content) for result in await asyncio.gather(*calls)]

    assert asyncio.run(conversation()) == [f"Hello, {n}!" for n in range(30)]


@pytest.mark.node
@pytest.mark.parametrize("server", ["everything", "echo"])
def test_the_inspector_lists_tools_over_a_pipe(server: str, tmp_path: Path) -> None:
    answer = inspected(server, tmp_path, "tools/list")
    assert [tool["name"] for tool in answer["tools"]]


@pytest.mark.node
def test_the_inspector_calls_and_reads_over_a_pipe(tmp_path: Path) -> None:
    call = ["--tool-name", "test_simple_text", "--tool-args-json", "{}"]
    assert inspected("everything", tmp_path, "tools/call", *call)["content"][0]["type"] == "text"
    uri = inspected("everything", tmp_path, "resources/list")["resources"][0]["uri"]
    assert inspected("everything", tmp_path, "resources/read", "--uri", uri)["contents"]


def inspected(server: str, folder: Path, method: str, *options: str) -> Any:
    """What MCP Inspector's command line gets from `patchbay stdio`."""
    started = [sys.executable, *command(server, folder)]
    argv = [str(NODE), str(INSPECTOR), "--cli", *started, "--method", method, "--format", "json", "--quiet", *options]
    environment = plain_environment(folder)
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 0, done.stderr or done.stdout
    answer = json.loads(done.stdout)
    return answer.get("result", answer)
