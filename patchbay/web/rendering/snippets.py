"""Snippets that connect each client to one endpoint: text to copy, with the URL of the endpoint.

The table of applications (`patchbay/client/applications/`) says how each client writes an entry. Names and URLs are
quoted by the rules of the language of the snippet. Source: the documentation of the clients.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from patchbay.client.applications.applications import APPLICATIONS
from patchbay.client.applications.edits import insert
from patchbay.client.applications.own_entry import make_entry

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


def snippets(name: str, url: str, command: Sequence[str] = ("patchbay", "stdio")) -> list[Snippet]:
    """The snippets of all clients, for the name of the server in the client and the absolute URL of the endpoint.

    `command` serves the same server over standard input and output.
    """
    return [*_applications(name, url, command), *_editors(name, url), *_programs(name, url)]


def _applications(name: str, url: str, command: Sequence[str]) -> list[Snippet]:
    gemini = f"gemini mcp add --transport http {shlex.quote(name)} {shlex.quote(url)}"
    codex = f"codex mcp add {shlex.quote(name)} --url {shlex.quote(url)}"
    studio = _link("lmstudio://add_mcp", name=name, config=_base64({"url": url}))
    goose = _link("goose://extension", url=url, type="streamable_http", id=name, name=name, description="Patchbay")
    return [
        Snippet("Claude Code", TERMINAL, claude_code(name, url), TERMINAL, claude_code(name, url)),
        _file("claude-desktop", name, "", command),
        _installed("gemini", name, url, TERMINAL, gemini),
        _installed("codex", name, url, TERMINAL, codex),
        Snippet("LM Studio", "mcp.json", _pretty({"mcpServers": {name: {"url": url}}}), BROWSER, studio, studio),
        _installed("goose", name, url, BROWSER, goose, goose),
        _file("copilot-cli", name, url),
        _file("opencode", name, url),
    ]


def _editors(name: str, url: str) -> list[Snippet]:
    cursor = _link("cursor://anysphere.cursor-deeplink/mcp/install", name=name, config=_base64({"url": url}))
    entry = {"name": name, "type": "http", "url": url}
    code = f"code --add-mcp {shlex.quote(_line(entry))}"
    return [
        _installed("cursor", name, url, BROWSER, cursor, cursor),
        _installed("vscode", name, url, TERMINAL, code, _vscode("vscode", entry)),
        Snippet(
            "VS Code Insiders",
            "mcp.json",
            _file_text("vscode", name, url),
            BROWSER,
            _vscode("vscode-insiders", entry),
            _vscode("vscode-insiders", entry),
        ),
        *(_file(client, name, url) for client in ("windsurf", "zed", "cline", "kiro", "continue")),
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


def _vscode(scheme: str, entry: object) -> str:
    return f"{scheme}:mcp/install?{quote(_line(entry), safe='')}"


def _installed(client: str, name: str, url: str, how: str, line: str, link: str = "") -> Snippet:
    """A snippet with the text of the settings file of an application, and a line that does the same."""
    row = APPLICATIONS[client]
    return Snippet(row.title, row.shown, _file_text(client, name, url), how, line, link)


def _file(client: str, name: str, url: str, command: Sequence[str] = ()) -> Snippet:
    """A snippet for a client with a settings file only."""
    row = APPLICATIONS[client]
    value = {row.section: {name: make_entry(row, name, url, command)}}
    return Snippet(row.title, row.shown, _pretty(value), SETTINGS_FILE, _line(value))


def _file_text(client: str, name: str, url: str) -> str:
    """The text of a settings file with this server alone."""
    row = APPLICATIONS[client]
    return insert(row.form, "", row.section, name, make_entry(row, name, url), row.shown).strip()


def _link(place: str, **query: str) -> str:
    return f"{place}?{urlencode(query, quote_via=quote)}"


def _base64(value: object) -> str:
    return base64.b64encode(_line(value).encode()).decode()


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
