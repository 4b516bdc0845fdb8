"""Every snippet of a page is run as it is printed, for one server and for all at once, against a hub as users start it.

The test runs curl, Python, TypeScript, MCP Inspector and the command of Claude Desktop. For the other clients, which
are applications, it parses the settings by their documentation, and connects to the named endpoints. Issue 12 part 2;
VWR-5, VWR-6.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tomllib
from base64 import b64decode
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import Request, urlopen

import pytest
import yaml
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.interaction.peers import NODE, PACKAGES
from tests.interaction.programs import Hub, running_hub
from tests.waiting import BOUND

pytestmark = pytest.mark.process

LINE = re.compile(r"<li>\s*<div><h3>(.*?)</h3>(.*?)</li>", re.DOTALL)
CODE = re.compile(r"<pre[^>]*><code>(.*?)</code></pre>", re.DOTALL)
LINK = re.compile(r'<a class="button[^"]*" href="([^"]*)"')
SERVERS = {"all": ("/mcp", "/mcp"), "one": ("/mcp/meta/hello", "/mcp/hello")}
"""The page, and the endpoint that its snippets lead to."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running_hub(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture(params=SERVERS)
def page_snippets(request: pytest.FixtureRequest, hub: Hub) -> tuple[str, dict[str, list[str]]]:
    """The endpoint, and for each client what its page shows: the line, the longer text, the link."""
    page, path = SERVERS[request.param]
    html = urlopen(Request(hub.url + page, headers={"Accept": "text/html"})).read().decode()
    found = {}
    for client, rest in LINE.findall(html):
        pieces = [unescape(re.sub(r"<[^>]*>", "", code)) for code in CODE.findall(rest)]
        found[unescape(client)] = pieces + [unescape(link) for link in LINK.findall(rest)]
    return hub.url + path, found


def bash(line: str, folder: Path, path: str = "") -> str:
    """What a command line prints, in the folder of the Node packages."""
    environment = {"PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-c", line], cwd=PACKAGES, env=environment, capture_output=True, text=True, timeout=BOUND
    )
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


async def listed(target: Any) -> set[str]:
    names: set[str] = set()
    async with Client(target) as client:
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            names |= {tool.name for tool in page.tools}
            cursor = page.next_cursor
            if cursor is None:
                return names


def test_the_page_shows_every_client(page_snippets: tuple[str, dict[str, list[str]]]) -> None:
    assert set(page_snippets[1]) == {
        *(
            "Claude Code",
            "Claude Desktop",
            "Gemini CLI",
            "Codex",
            "LM Studio",
            "Goose",
            "Cursor",
            "VS Code",
            "VS Code Insiders",
            "Windsurf",
        ),
        *("Zed", "Cline", "Kiro", "Continue", "Copilot CLI", "opencode"),
        *("MCP Inspector", "Python", "TypeScript", "curl"),
    }


def test_curl_lists_the_tools(page_snippets: tuple[str, dict[str, list[str]]], tmp_path: Path) -> None:
    """Without a session, at `/mcp` too."""
    url, clients = page_snippets
    for text in clients["curl"]:
        names = [tool["name"] for tool in json.loads(bash(text, tmp_path))["result"]["tools"]]
        assert names
        assert set(names) <= asyncio.run(listed(url))


def test_the_programs_list_all_pages(page_snippets: tuple[str, dict[str, list[str]]], tmp_path: Path) -> None:
    url, clients = page_snippets
    expected = asyncio.run(listed(url))
    line, text = clients["Python"]
    (tmp_path / "snippet.py").write_text(text)
    said = bash(f"{sys.executable} {tmp_path / 'snippet.py'}", tmp_path)
    assert {row.split()[0] for row in said.splitlines() if row.split()[0] in expected} == expected
    scope: dict[str, Any] = {}
    exec(f"import mcp\n{line}\nurl = client.server", scope)
    assert scope["url"] == url
    line, text = clients["TypeScript"]
    assert line in text
    script = PACKAGES / f"snippet-{os.getpid()}.mjs"
    script.write_text(text)
    try:
        said = bash(f"{NODE} {script}", tmp_path)
    finally:
        script.unlink()
    assert {row.split()[0] for row in said.splitlines() if row.split()[0] in expected} == expected


def test_the_inspector_lists_the_tools(page_snippets: tuple[str, dict[str, list[str]]], tmp_path: Path) -> None:
    url, clients = page_snippets
    (line,) = clients["MCP Inspector"]
    programs = tmp_path / "bin"
    programs.mkdir()
    npx = NODE.parents[1] / "lib/node_modules/npm/bin/npx-cli.js"
    (programs / "npx").write_text(f'#!/bin/sh\nexec {NODE} {npx} --offline "$@"\n')
    (programs / "npx").chmod(0o755)
    found = json.loads(bash(line, tmp_path, f"{programs}:{NODE.parent}"))
    names = {tool["name"] for tool in found.get("result", found)["tools"]}
    assert names
    assert names <= asyncio.run(listed(url))


def test_claude_desktop_starts_the_hub_itself(page_snippets: tuple[str, dict[str, list[str]]]) -> None:
    """No Node is needed, and the same tools are there."""
    url, clients = page_snippets
    line, text = clients["Claude Desktop"]
    assert json.loads(line) == json.loads(text)
    ((_, entry),) = json.loads(text)["mcpServers"].items()
    program = stdio_client(StdioServerParameters(command=entry["command"], args=entry["args"]))
    assert asyncio.run(listed(program)) == asyncio.run(listed(url))


def only(found: Any) -> tuple[str, dict[str, Any]]:
    ((name, entry),) = found.items()
    return name, entry


def test_the_settings_of_applications_name_the_server_as_each_reads_it(
    page_snippets: tuple[str, dict[str, list[str]]],
) -> None:
    url, clients = page_snippets
    name = "patchbay" if url.endswith("/mcp") else "hello"
    read = {
        "Gemini CLI": only(json.loads(clients["Gemini CLI"][1])["mcpServers"]),
        "Codex": only(tomllib.loads(clients["Codex"][1])["mcp_servers"]),
        "LM Studio": only(json.loads(clients["LM Studio"][1])["mcpServers"]),
        "Goose": only(yaml.safe_load(clients["Goose"][1])["extensions"]),
        "Cursor": only(json.loads(clients["Cursor"][1])["mcpServers"]),
        "VS Code": only(json.loads(clients["VS Code"][1])["servers"]),
        "VS Code Insiders": only(json.loads(clients["VS Code Insiders"][1])["servers"]),
        "Windsurf": only(json.loads(clients["Windsurf"][0])["mcpServers"]),
        "Zed": only(json.loads(clients["Zed"][0])["context_servers"]),
        "opencode": only(json.loads(clients["opencode"][0])["mcp"]),
        **{
            client: only(json.loads(clients[client][0])["mcpServers"])
            for client in ("Cline", "Kiro", "Continue", "Copilot CLI")
        },
    }
    keys = {"Gemini CLI": "httpUrl", "Windsurf": "serverUrl", "Goose": "uri"}
    assert {
        client: (found, entry[keys.get(client, "url")]) for client, (found, entry) in read.items()
    } == dict.fromkeys(read, (name, url))
    assert read["Goose"][1]["type"] == "streamable_http"
    assert read["VS Code"][1]["type"] == "http"
    assert clients["Claude Code"] == [f"claude mcp add --transport http {name} {url}"]
    assert clients["Gemini CLI"][0] == f"gemini mcp add --transport http {name} {url}"
    assert clients["Codex"][0] == f"codex mcp add {name} --url {url}"


def test_links_name_the_server(page_snippets: tuple[str, dict[str, list[str]]]) -> None:
    url, clients = page_snippets
    links = {client: texts[-1] for client, texts in clients.items() if re.match(r"[a-z-]+:(//)?[a-z]", texts[-1])}
    links = {client: link for client, link in links.items() if not link.startswith("http")}
    assert set(links) == {"LM Studio", "Goose", "Cursor", "VS Code", "VS Code Insiders"}
    queries = {client: parse_qs(urlsplit(link).query) for client, link in links.items()}
    for client in ("LM Studio", "Cursor"):
        assert json.loads(b64decode(queries[client]["config"][0])) == {"url": url}
    assert queries["Goose"]["url"] == [url]
    assert links["VS Code Insiders"].startswith("vscode-insiders:mcp/install?")
    for client in ("VS Code", "VS Code Insiders"):
        assert json.loads(unquote(links[client].partition("?")[2]))["url"] == url
