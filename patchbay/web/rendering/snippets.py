"""Snippets that connect each client to one endpoint: text to copy, with the URL of the endpoint.

Names and URLs are quoted by the rules of the language of the snippet.
Source: the documentation of the clients.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from patchbay.settings import Settings

REVISION = "2026-07-28"
LIST_TOOLS = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
"""A stateless request for the example with curl."""

TERMINAL = "In a terminal"
SETTINGS_FILE = "In its settings file"
BROWSER = "In a browser"
PROGRAM = "In a program"


@dataclass(frozen=True, slots=True)
class Snippet:
    """One snippet: the client, the place of the text, the text, and a line that does the same.

    `how` is the place of the line. `link` opens the client with the server filled in, for clients that have such links.
    """

    client: str
    where: str
    text: str
    how: str
    line: str
    link: str = ""


def claude_code(name: str, url: str) -> str:
    """The command that connects Claude Code."""
    return f"claude mcp add --transport http {shlex.quote(name)} {shlex.quote(url)}"


def stdio_command(settings: Settings, server: str, local: bool) -> list[str]:
    """The command that serves a server (all servers for an empty name) over standard input and output.

    With `local` the command has the paths of the program and of the hub's folders, and the shipped servers that this
    hub switches on. Set `local` only for a reader who may see paths.
    """
    beside = Path(sys.executable).with_name("patchbay")
    program = [str(beside)] if beside.is_file() else [sys.executable, "-m", "patchbay"]
    folders = ["--data", str(settings.data.absolute()), "--servers", str(settings.servers.absolute())]
    enabled = ["--enable", ",".join(settings.enable)] if settings.enable else []
    words = program if local else ["patchbay"]
    return [*words, "stdio", *([server] if server else []), *([*folders, *enabled] if local else [])]


def snippets(name: str, url: str, command: Sequence[str] = ("patchbay", "stdio")) -> list[Snippet]:
    """The snippets of all clients, for the name of the server in the client and the absolute URL of the endpoint.

    `command` serves the same server over standard input and output.
    """
    return [*_applications(name, url, command), *_editors(name, url), *_programs(name, url)]


def _applications(name: str, url: str, command: Sequence[str]) -> list[Snippet]:
    desktop = {"mcpServers": {name: {"command": command[0], "args": list(command[1:])}}}
    gemini = f"gemini mcp add --transport http {shlex.quote(name)} {shlex.quote(url)}"
    studio = _link("lmstudio://add_mcp", name=name, config=_base64({"url": url}))
    goose = _link("goose://extension", url=url, type="streamable_http", id=name, name=name, description="Patchbay")
    return [
        Snippet("Claude Code", TERMINAL, claude_code(name, url), TERMINAL, claude_code(name, url)),
        _file("Claude Desktop", "claude_desktop_config.json", desktop),
        Snippet(
            "Gemini CLI", "~/.gemini/settings.json", _pretty({"mcpServers": {name: {"httpUrl": url}}}), TERMINAL, gemini
        ),
        Snippet(
            "Codex",
            "~/.codex/config.toml",
            f"[mcp_servers.{_toml(name)}]\nurl = {_toml_string(url)}",
            TERMINAL,
            f"codex mcp add {shlex.quote(name)} --url {shlex.quote(url)}",
        ),
        Snippet("LM Studio", "mcp.json", _pretty({"mcpServers": {name: {"url": url}}}), BROWSER, studio, studio),
        Snippet("Goose", "~/.config/goose/config.yaml", _goose(name, url), BROWSER, goose, goose),
    ]


def _editors(name: str, url: str) -> list[Snippet]:
    cursor = _link("cursor://anysphere.cursor-deeplink/mcp/install", name=name, config=_base64({"url": url}))
    entry = {"name": name, "type": "http", "url": url}
    code = f"code --add-mcp {shlex.quote(_line(entry))}"
    visual = {"servers": {name: {"type": "http", "url": url}}}
    return [
        Snippet("Cursor", ".cursor/mcp.json", _pretty({"mcpServers": {name: {"url": url}}}), BROWSER, cursor, cursor),
        Snippet("VS Code", ".vscode/mcp.json", _pretty(visual), TERMINAL, code, _vscode(entry)),
        _file("Windsurf", "~/.codeium/windsurf/mcp_config.json", {"mcpServers": {name: {"serverUrl": url}}}),
        _file("Zed", "~/.config/zed/settings.json", {"context_servers": {name: {"url": url}}}),
    ]


def _programs(name: str, url: str) -> list[Snippet]:
    program = "npx @modelcontextprotocol/inspector@2 --cli"
    inspector = f"{program} --server-url {shlex.quote(url)} --transport http --method tools/list"
    connect = f"await client.connect(new StreamableHTTPClientTransport(new URL({json.dumps(url)})));"
    package = "npm install @modelcontextprotocol/client"
    return [
        Snippet("MCP Inspector", TERMINAL, inspector, "In a terminal, with Node 22.19 or newer", inspector),
        Snippet("Python", "pip install mcp", _python(url), PROGRAM, f"client = mcp.Client({json.dumps(url)})"),
        Snippet("TypeScript", package, _typescript(name, url), PROGRAM, connect),
        Snippet("curl", TERMINAL, _curl(url), TERMINAL, _curl(url).replace(" \\\n ", "")),
    ]


def _vscode(entry: object) -> str:
    return f"vscode:mcp/install?{quote(_line(entry), safe='')}"


def _file(client: str, where: str, value: object) -> Snippet:
    """A snippet for a client with a settings file only."""
    return Snippet(client, where, _pretty(value), SETTINGS_FILE, _line(value))


def _link(place: str, **query: str) -> str:
    return f"{place}?{urlencode(query, quote_via=quote)}"


def _base64(value: object) -> str:
    return base64.b64encode(_line(value).encode()).decode()


def _toml(name: str) -> str:
    """Quote a name as a TOML key."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_string(name)


def _toml_string(text: str) -> str:
    return json.dumps(text).replace("\x7f", "\\u007f")


def _goose(name: str, url: str) -> str:
    entry = {"name": name, "type": "streamable_http", "uri": url, "enabled": True, "timeout": 300}
    lines = [f"    {key}: {json.dumps(value)}" for key, value in entry.items()]
    return "\n".join(["extensions:", f"  {json.dumps(name)}:", *lines])


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _python(url: str) -> str:
    return f"""import asyncio
from mcp import Client


async def main():
    async with Client({json.dumps(url)}) as client:
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            for tool in page.tools:
                print(tool.name, tool.description)
            cursor = page.next_cursor
            if cursor is None:
                break


asyncio.run(main())"""


def _typescript(name: str, url: str) -> str:
    return f"""import {{ Client, StreamableHTTPClientTransport }} from "@modelcontextprotocol/client";

const client = new Client({{ name: {json.dumps(name + "-client")}, version: "1.0.0" }});
await client.connect(new StreamableHTTPClientTransport(new URL({json.dumps(url)})));
for (let cursor; ; ) {{
  const page = await client.listTools({{ cursor }});
  for (const tool of page.tools) console.log(tool.name, tool.description);
  if (!(cursor = page.nextCursor)) break;
}}
await client.close();"""


def _curl(url: str) -> str:
    return (
        f"curl {shlex.quote(url)} \\\n"
        "  -H 'Content-Type: application/json' \\\n"
        "  -H 'Accept: application/json, text/event-stream' \\\n"
        f"  -H 'MCP-Protocol-Version: {REVISION}' -H 'Mcp-Method: tools/list' \\\n"
        f"  -d {shlex.quote(json.dumps(LIST_TOOLS))}"
    )
