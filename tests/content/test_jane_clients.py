"""Independent clients use Jane with documentation of other projects.

Discover, search, retrieve, manage: MCP Inspector's command line, the official SDKs in both eras, and FastMCP.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp.client.stdio import StdioServerParameters

from tests.checkout import ROOT
from tests.content.jane import command
from tests.documents.corpus import unpack
from tests.interaction.peers import INSPECTOR, MODERN, NODE, PEERS, texts
from tests.interaction.programs import Hub, plain_environment, running_hub
from tests.waiting import BOUND

pytestmark = [pytest.mark.process, pytest.mark.node]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    assert unpack(folder) > 70
    return folder


@pytest.fixture(scope="module")
def hub(documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running_hub(tmp_path_factory.mktemp("hub") / "h", options=["--jane-dir", str(documents)]) as hub:
        yield hub


@pytest.mark.parametrize("name", PEERS)
def test_a_client_discovers_searches_retrieves_and_manages(hub: Hub, name: str, tmp_path: Path) -> None:
    """JANE-19, JANE-21: every client finds the right document and reads it, then writes one and reads that."""
    with PEERS[name](tmp_path) as peer:
        server = hub.endpoint("jane")
        assert len(peer.tools(server)) == 7 and peer.prompts(server) == ["summarize"]
        assert "fastify" in peer.call(server, "list_specs", {})
        assert "Hooks (Reference/Hooks.md)" in peer.call(server, "list_specs", {"project": "fastify"})
        found = peer.call(
            server, "search", {"query": "hook that runs before sending the response", "project": "fastify"}
        )
        assert (
            "spec://fastify/Reference/Hooks.md" in found.split("## ")[1] + found.split("## ")[2] + found.split("## ")[3]
        )
        assert "onSend" in peer.call(server, "get_spec", {"project": "fastify", "path": "Reference/Hooks.md"})
        assert "onSend" in peer.read(server, "spec://fastify/Reference/Hooks.md")
        place = {"type": "spec", "project": "notes", "path": f"{name}.md"}
        assert "Created" in peer.call(server, "create_document", {**place, "title": name, "content": "zucchini"})
        assert "Updated" in peer.call(server, "update_document", {**place, "content": f"zucchini of {name}"})
        assert f"spec://notes/{name}.md" in peer.call(server, "search", {"query": f"zucchini {name}"})
        assert f"title: {name}" in peer.read(server, f"spec://notes/{name}.md")


@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_the_official_sdk_walks_over_a_pipe(documents: Path, mode: str, tmp_path: Path) -> None:
    """JANE-1, JANE-19, JANE-26: as Claude Desktop starts it, with `JANE_DIR` in its environment."""
    started = command(tmp_path)
    environment = {**plain_environment(tmp_path), "JANE_DIR": str(documents)}
    parameters = StdioServerParameters(command=started[0], args=started[1:], env=environment, cwd=ROOT)

    async def walk() -> tuple[str, Any]:
        async with mcp.Client(parameters, mode=mode, read_timeout_seconds=BOUND) as client:
            found = await client.call_tool("search", {"query": "websocket ping frame", "language": "javascript"})
            read = await client.read_resource(found.structured_content["results"][0]["uri"])
            return texts(found.content), texts(read.contents)

    said, read = asyncio.run(walk())
    assert "stdlib://javascript/api/WebSocket.md" in said and "WebSocket" in read


def test_the_inspector_walks_over_a_pipe(documents: Path, tmp_path: Path) -> None:
    """JANE-19: `npx @modelcontextprotocol/inspector` with the command of Jane."""

    def inspected(method: str, *options: str) -> Any:
        argv = [
            str(NODE),
            str(INSPECTOR),
            "--cli",
            *command(tmp_path),
            "--connect-timeout",
            f"{BOUND * 1000:.0f}",
            "--method",
            method,
            "--format",
            "json",
            "--quiet",
        ]
        environment = {**plain_environment(tmp_path), "JANE_DIR": str(documents)}
        argv += ["-e", f"JANE_DIR={documents}", *options]
        done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=BOUND)
        assert done.returncode == 0, done.stderr or done.stdout
        answer = json.loads(done.stdout)
        return answer.get("result", answer)

    assert len(inspected("tools/list")["tools"]) == 7
    assert len(inspected("resources/templates/list")["resourceTemplates"]) == 2
    arguments = json.dumps({"query": "prototype poisoning"})
    found = inspected("tools/call", "--tool-name", "search", "--tool-args-json", arguments)
    assert "spec://fastify/Guides/Prototype-Poisoning.md" in found["content"][0]["text"]
    uri = "spec://fastify/Guides/Prototype-Poisoning.md"
    assert "__proto__" in inspected("resources/read", "--uri", uri)["contents"][0]["text"]
