"""How to connect each client to one endpoint: text to copy, with the right URL in it.

Rule: names and URLs are quoted by the language they stand in, never pasted.
Source: REQUIREMENTS VWR-6; the clients' own documentation.
"""

from __future__ import annotations

import base64
import json
import shlex
from dataclasses import dataclass
from urllib.parse import urlencode

LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@dataclass(frozen=True, slots=True)
class Snippet:
    """One thing to copy: which client, where it goes, the text, and a single line that does as much where there is one.

    `how` says where the line goes.
    """

    client: str
    where: str
    text: str
    how: str
    line: str


def claude_code(name: str, url: str) -> str:
    """The one line that connects Claude Code."""
    return f"claude mcp add --transport http {shlex.quote(name)} {shlex.quote(url)}"


def snippets(name: str, url: str) -> list[Snippet]:
    """What to copy for each client, given the name to use there and the endpoint's absolute URL."""
    entry = {"command": "npx", "args": ["-y", "mcp-remote", url]}
    desktop = {"mcpServers": {name: entry}}
    terminal = "In a terminal"
    return [
        Snippet("Claude Code", terminal, claude_code(name, url), terminal, claude_code(name, url)),
        Snippet(
            "Claude Desktop", "claude_desktop_config.json", _pretty(desktop), "In its settings file", _line(desktop)
        ),
        Snippet(
            "Cursor",
            ".cursor/mcp.json",
            _pretty({"mcpServers": {name: {"url": url}}}),
            "In a browser",
            _cursor(name, url),
        ),
        Snippet(
            "VS Code",
            ".vscode/mcp.json",
            _pretty({"servers": {name: {"type": "http", "url": url}}}),
            terminal,
            f"code --add-mcp {shlex.quote(_line({'name': name, 'type': 'http', 'url': url}))}",
        ),
        Snippet("MCP Inspector", terminal, _inspector(url), terminal, _inspector(url)),
        Snippet("Python", "pip install mcp", _python(url), "In a program", f"client = mcp.Client({json.dumps(url)})"),
        Snippet(
            "TypeScript",
            "npm install @modelcontextprotocol/client",
            _typescript(name, url),
            "In a program",
            f"await client.connect(new StreamableHTTPClientTransport(new URL({json.dumps(url)})));",
        ),
        Snippet("curl", terminal, _curl(url), terminal, _curl(url).replace(" \\\n ", "")),
    ]


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cursor(name: str, url: str) -> str:
    config = base64.b64encode(_line({"url": url}).encode()).decode()
    return f"cursor://anysphere.cursor-deeplink/mcp/install?{urlencode({'name': name, 'config': config})}"


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
