"""How to connect each client to one endpoint: text to copy, with the right URL in it.

Rule: names and URLs are quoted by the language they stand in, never pasted.
Source: REQUIREMENTS VWR-6; the clients' own documentation.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@dataclass(frozen=True, slots=True)
class Snippet:
    """One thing to copy: which client, where it goes, and the text."""

    client: str
    where: str
    text: str


def claude_code(name: str, url: str) -> str:
    """The one line that connects Claude Code."""
    return f"claude mcp add --transport http {shlex.quote(name)} {shlex.quote(url)}"


def snippets(name: str, url: str) -> list[Snippet]:
    """What to copy for each client, given the name to use there and the endpoint's absolute URL."""
    return [
        Snippet("Claude Code", "In a terminal", claude_code(name, url)),
        Snippet("Claude Desktop", "claude_desktop_config.json", _claude_desktop(name, url)),
        Snippet("Cursor", ".cursor/mcp.json", _pretty({"mcpServers": {name: {"url": url}}})),
        Snippet("VS Code", ".vscode/mcp.json", _pretty({"servers": {name: {"type": "http", "url": url}}})),
        Snippet("Python", "pip install mcp", _python(url)),
        Snippet("TypeScript", "npm install @modelcontextprotocol/client", _typescript(name, url)),
        Snippet("curl", "In a terminal", _curl(url)),
        Snippet("MCP Inspector", "In a terminal", _inspector(url)),
    ]


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _claude_desktop(name: str, url: str) -> str:
    return _pretty({"mcpServers": {name: {"command": "npx", "args": ["-y", "mcp-remote", url]}}})


def _python(url: str) -> str:
    return f"""import asyncio
from mcp import Client


async def main():
    async with Client({json.dumps(url)}) as client:
        for tool in (await client.list_tools()).tools:
            print(tool.name, tool.description)


asyncio.run(main())"""


def _typescript(name: str, url: str) -> str:
    return f"""import {{ Client, StreamableHTTPClientTransport }} from "@modelcontextprotocol/client";

const client = new Client({{ name: {json.dumps(name + "-client")}, version: "1.0.0" }});
await client.connect(new StreamableHTTPClientTransport(new URL({json.dumps(url)})));
console.log((await client.listTools()).tools);
await client.close();"""


def _curl(url: str) -> str:
    return (
        f"curl {shlex.quote(url)} \\\n"
        "  -H 'Content-Type: application/json' \\\n"
        "  -H 'Accept: application/json, text/event-stream' \\\n"
        f"  -d {shlex.quote(json.dumps(LIST_TOOLS))}"
    )


def _inspector(url: str) -> str:
    return f"npx @modelcontextprotocol/inspector --cli {shlex.quote(url)} --transport http --method tools/list"
