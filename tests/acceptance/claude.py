"""The real `claude` program of npm in a session of `claudecode`: it uses a tool of the hub without being asked.

The API is a stand-in of this machine, which asks for the tool and then says "done". Issue 12 part 7.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from mcp import Client

from tests.checkout import ROOT
from tests.content.anthropic_endpoint import KEY, MessagesEndpoint, messages_endpoint
from tests.interaction.peers import NODE
from tests.interaction.programs import Hub
from tests.waiting import BOUND, until

REFERENCE = ROOT / "reference_templates"
PACKAGE = "@anthropic-ai/claude-code"
INSTALL_SECONDS = 600.0


def installed(folder: Path) -> Path:
    """The program, fetched from npm."""
    place = folder / "claude"
    place.mkdir()
    npm = NODE.parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
    environment = {**os.environ, "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
    package = place / "node_modules" / PACKAGE
    commands: list[tuple[list[str], Path]] = [
        ([str(NODE), str(npm), "install", PACKAGE, "--no-audit", "--no-fund", "--loglevel=error"], place),
        ([str(NODE), "install.cjs"], package),
    ]
    for words, where in commands:
        subprocess.run(words, cwd=where, env=environment, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    return place / "node_modules/.bin/claude"


def is_on(hub: Hub, server: str) -> bool:
    """Whether the hub serves it; the page of a server that is off answers too."""
    with urllib.request.urlopen(f"{hub.url}/servers.json", timeout=BOUND) as answer:
        return any(one["name"] == server and one["status"] == "on" for one in json.load(answer))


async def _chatted(hub: Hub, folder: Path) -> list[Any]:
    async with Client(hub.endpoint("claudecode"), mode="legacy", read_timeout_seconds=120) as client:
        session = {"name": "one", "working_dir": str(folder), "model": "sonnet", "loopback_enabled": True}
        made = await client.call_tool("create", session)
        assert not made.is_error, made.content
        chat = await client.call_tool("chat", {"session_name": "one", "query": "use the tool"})
    return [chat.is_error, "".join(getattr(part, "text", "") for part in chat.content)]


def used_tools(endpoint: MessagesEndpoint) -> list[str]:
    """What the results of tools hold that the program sent to the API."""
    messages = [one for body, _ in endpoint.asked for one in body["messages"] if isinstance(one["content"], list)]
    blocks = [block for one in messages for block in one["content"] if block.get("type") == "tool_result"]
    return [json.dumps(block) for block in blocks]


def claude_uses_the_hub(hub: Hub, folder: Path) -> str:
    """What came of it: "ok", or what went wrong."""
    program = installed(folder)
    with messages_endpoint("mcp__patchbay__hello", {"name": "Ada"}) as endpoint:
        config = json.loads((REFERENCE / "mcps/configs/claudecode.json").read_text("utf-8"))
        config["environment"] |= {
            "CLAUDE_COMMAND": str(program),
            "CLAUDE_LOOPBACK": hub.endpoint("hello"),
            "ANTHROPIC_BASE_URL": endpoint.url,
            "ANTHROPIC_AUTH_TOKEN": KEY,
        }
        (hub.servers / "claudecode.mcp.json").write_text(json.dumps(config), "utf-8")
        source = (REFERENCE / "servers/definitions/claudecode.py").read_text("utf-8")
        (hub.servers / "claudecode.py").write_text(source, "utf-8")
        until(lambda: is_on(hub, "claudecode"), "claudecode to be served")
        is_error, said = asyncio.run(_chatted(hub, folder))
        results = used_tools(endpoint)
    if is_error or not any("Hello, Ada" in one for one in results):
        return f"FAILED: {said}; {results}"
    return "ok"
