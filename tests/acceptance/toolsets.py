"""Twelve servers of PyPI and npm in one hub, and a toolset of six of their tools, used by strangers' clients. Issue 54.

The toolset is made on the page, once by mouse and once by keyboard alone. Every client then lists it, calls its six
tools and sends each fixed argument: at the hub, over stdio, in a room, through a mount in a second hub, and over three
nodes on one PostgreSQL. An agent of Pydantic AI with a scripted model does the same. All answers equal those of the
origins. The list at `/mcp` and that of the toolset are printed in bytes and tokens.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from playwright.sync_api import Page, sync_playwright

from patchbay.access.hub_key import load_key
from patchbay.access.operator_token import OperatorToken
from patchbay.web.operator.login_links import LoginLinks
from tests.acceptance.together import START_SECONDS, with_own_programs
from tests.browser.keyboard import press, step_to, write
from tests.browser.tabs import Tab, launched
from tests.interaction.balanced import running_nodes
from tests.interaction.peers import MODERN, Json, PythonSdk
from tests.interaction.programs import Hub, running_hub
from tests.interaction.toolset_uses import (
    InRoom,
    OverStdio,
    ToolsetCall,
    ToolsPeer,
    all_peers,
    announced,
    call_origins,
    compare,
    describe_toolset,
)
from tests.waiting import until

SERVERS: Mapping[str, Sequence[str]] = {
    "time": ("uvx", "mcp-server-time"),
    "git": ("uvx", "mcp-server-git", "--repository", "{repository}"),
    "sqlite": ("uvx", "--with", "mcp<2", "mcp-server-sqlite"),
    "fetch": ("uvx", "mcp-server-fetch"),
    "random": ("uvx", "random-number-mcp"),
    "excel": ("uvx", "excel-mcp-server", "stdio"),
    "everything": ("npx", "-y", "@modelcontextprotocol/server-everything"),
    "files": ("npx", "-y", "@modelcontextprotocol/server-filesystem", "{files}"),
    "memory": ("npx", "-y", "@modelcontextprotocol/server-memory"),
    "thinking": ("npx", "-y", "@modelcontextprotocol/server-sequential-thinking"),
    "playwright": ("npx", "-y", "@playwright/mcp"),
    "chrome": ("npx", "-y", "chrome-devtools-mcp"),
}
"""The servers by name, as the documents of each print its command."""

AGENT = '''
import asyncio, json, sys

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

calls = json.loads(sys.argv[2])
listed = []


def answer(messages, info):
    """The script of the model: call each tool once, then say what came back."""
    returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if not returned:
        listed.extend(tool.name for tool in info.function_tools)
        return ModelResponse(parts=[ToolCallPart(name, arguments) for name, arguments in calls.items()])
    return ModelResponse(parts=[TextPart(json.dumps({part.tool_name: part.content for part in returned}))])


agent = Agent(FunctionModel(answer), toolsets=[MCPToolset(sys.argv[1])])
result = asyncio.run(agent.run("Work."))
print(json.dumps({"listed": listed, "returned": json.loads(result.output)}))
'''
AGENT_PACKAGE = "pydantic-ai-slim[mcp]"
AGENT_SECONDS = 300.0

_NEVER = threading.Event()


def list_calls(folder: Path) -> tuple[ToolsetCall, ...]:
    """Return the six tools; each gives the same answer at each call."""
    note, repository = str(folder / "files" / "note.txt"), str(folder / "repository")
    return (
        ToolsetCall("history", "git.git_log", {"max_count": 3}, {"repo_path": repository}),
        ToolsetCall("note", "files.read_text_file", {}, {"path": note}),
        ToolsetCall("echo", "everything.echo", {"message": "Grüße"}),
        ToolsetCall("get-sum", "everything.get-sum", {"a": 40, "b": 2}),
        ToolsetCall("list_tables", "sqlite.list_tables", {}),
        ToolsetCall("search_nodes", "memory.search_nodes", {"query": "nothing"}),
    )


def run_toolsets(folder: Path) -> bool:
    """Make the toolset by both hands, use it by every way; print what differs. Return whether nothing does."""
    calls = list_calls(folder)
    entries = {name: {"command": words[0], "args": list(fill(words[1:], folder))} for name, words in SERVERS.items()}
    (folder / "many.json").write_text(json.dumps({"mcpServers": entries}))
    data = folder / "hub" / "data"
    differences: list[str] = []
    with ExitStack() as stack:
        begin = stack.enter_context
        hub = begin(running_hub(folder / "hub", [folder / "many.json"], environment=with_own_programs()))
        wait_until_listed(hub)
        report_prices(hub, "mcp")
        make_both(hub, calls, data)
        report_prices(hub, "mouse")
        differences += check_files(hub, calls)
        peers = begin(all_peers(folder / "homes"))
        expected = call_origins(peers["python-sdk-handshake"], hub.url, calls)
        say("calls of the origins", "\n".join(f"  {name}: {text[:80]!r}" for name, text in expected.items()))

        def check(way: str, endpoint: str, used: Mapping[str, ToolsPeer] = peers) -> None:
            begun = time.monotonic()
            found = compare(used, way, endpoint, calls, expected)
            say(way, f"{len(used)} clients, {len(found)} differences ({time.monotonic() - begun:.0f} s)")
            differences.extend(found)

        for made in ("mouse", "keys"):
            check(f"made by {made}", hub.endpoint(made))
            differences += run_agent(hub.endpoint(made), calls, expected)
        check("stdio", "mouse", {mode: OverStdio(data, hub.servers, mode) for mode in ("legacy", MODERN)})
        with announced(hub, data, "mouse") as (room, prefix):
            check("in a room", room, {name: InRoom(peer, prefix) for name, peer in peers.items()})
        (folder / "far.json").write_text(json.dumps({"kind": "upstream", "address": hub.endpoint("mouse")}))
        second = begin(running_hub(folder / "second", [folder / "far.json"]))
        until(lambda: names_of(second, "far") == set(expected), "the toolset in the second hub")
        check("through a mount in a second hub", second.endpoint("far"))
        differences += run_agent(second.endpoint("far"), calls, expected)
        nodes = begin(nodes_of(folder, hub))
        wait_until_listed(nodes)
        until(lambda: names_of(nodes, "keys") == set(expected), "the toolset on the nodes")
        check("over three nodes", nodes.endpoint("keys"))
        differences += run_agent(nodes.endpoint("keys"), calls, expected)
    for one in differences:
        say("DIFFERS", one)
    return not differences


def say(what: str, text: str) -> None:
    sys.stdout.write(f"{what}: {text}\n")
    sys.stdout.flush()


def fill(words: Sequence[str], folder: Path) -> Sequence[str]:
    """Return the words of a command with the folders of this run."""
    return [one.format(repository=folder / "repository", files=folder / "files") for one in words]


def nodes_of(folder: Path, hub: Hub) -> Any:
    """Return three nodes on one PostgreSQL, with a copy of the servers folder, in a context."""
    servers = folder / "nodes" / "servers"
    shutil.copytree(hub.servers, servers)
    return running_nodes(folder / "nodes", servers, (), ["--enable", "everything"], with_own_programs(), 3)


def read_json(url: str) -> Any:
    with urlopen(Request(url, headers={"Accept": "application/json"}), timeout=60) as answer:
        return json.load(answer)


def names_of(hub: Hub, server: str) -> set[str]:
    """Return the names of the tools of a server."""
    return set(PythonSdk("legacy").tools(hub.endpoint(server)))


def wait_until_listed(hub: Hub) -> None:
    """Wait until each of the twelve servers lists its tools; a package may have to be fetched."""
    end = time.monotonic() + START_SECONDS
    missing = set(SERVERS)
    while missing and time.monotonic() < end:
        rows = {one["name"]: one for one in read_json(f"{hub.url}/servers")}
        missing = {name for name in SERVERS if name not in rows or rows[name]["upstream"]["state"] != "up"}
        _NEVER.wait(0.5)
    if missing:
        raise RuntimeError(f"not there after {START_SECONDS:g} s: {', '.join(sorted(missing))}")


def report_prices(hub: Hub, name: str) -> None:
    """Print what a list costs a model."""
    say(f"/toolsets/{name}", read_json(f"{hub.url}/toolsets/{name}.json")["price"])


def make_both(hub: Hub, calls: Sequence[ToolsetCall], data: Path) -> None:
    """Make the toolset `mouse` by mouse, and `keys` by keyboard alone."""
    with sync_playwright() as playwright:
        browser = launched(playwright)
        hands: dict[str, Callable[[Page, Sequence[ToolsetCall]], int]] = {"mouse": by_mouse, "keys": by_keyboard}
        for name, hand in hands.items():
            tab = Tab(browser, hub.url, viewport={"width": 1280, "height": 900})
            tab.open(LoginLinks(load_key(data), OperatorToken(data)).make())
            begun = time.monotonic()
            count = hand(tab.page, calls)
            say(f"made by {name}", f"{count} actions, {time.monotonic() - begun:.0f} s")
            tab.close()
        browser.close()


def by_mouse(page: Page, calls: Sequence[ToolsetCall]) -> int:
    """Make the toolset with clicks at the places of the screen, and texts; return the number of these actions."""
    count = 0

    def click(place: Any) -> None:
        nonlocal count
        place.scroll_into_view_if_needed()
        box = place.bounding_box()
        page.mouse.click(box["x"] + min(box["width"] / 2, 40), box["y"] + box["height"] / 2)
        count += 1

    def type_into(place: Any, text: str) -> None:
        click(place)
        page.keyboard.press("Control+A")
        page.keyboard.type(text)

    page.goto(f"{page.url.partition('/login')[0].rstrip('/')}/toolsets")
    click(page.get_by_role("link", name="New toolset", exact=True))
    type_into(page.get_by_label("Name below /mcp/"), "mouse")
    for server in dict.fromkeys(one.server for one in calls):
        tick = page.locator(f"input[name^='choose:{server}.']").first
        click(page.locator("details").filter(has=tick).locator("summary"))
        for one in calls:
            if one.server == server:
                click(page.locator(f"input[name='choose:{one.origin}']"))
    click(page.get_by_role("button", name="Check", exact=True))
    for one in calls:
        if one.name != one.tool or one.fixed:
            row = page.locator("fieldset").filter(has=page.get_by_text(f"of {one.tool}", exact=True))
            click(row.locator("summary").first)
            type_into(row.get_by_label("Name", exact=True), one.name)
            type_into(row.get_by_label("Fixed arguments"), "\n".join(f"{k}={v}" for k, v in one.fixed.items()))
    click(page.get_by_role("button", name="Save", exact=True))
    page.get_by_text("The toolset is saved.").wait_for()
    return count


def by_keyboard(page: Page, calls: Sequence[ToolsetCall]) -> int:
    """Make the toolset with keys alone; return the number of controls that were used."""
    page.goto(f"{page.url.partition('/login')[0].rstrip('/')}/toolsets")
    press(page, "New toolset", "link")
    write(page, "Name below /mcp/", "keys")
    for one in calls:
        write_search(page, one.tool)
        step_to(page, page.locator(f"input[name='choose:{one.origin}']"))
        page.keyboard.press("Space")
    write_search(page, "")
    shaped = [one for one in calls if one.name != one.tool or one.fixed]
    for one in shaped:
        row = page.locator("fieldset").filter(has=page.get_by_text(f"of {one.tool}", exact=True))
        step_to(page, row.locator("summary").first)
        page.keyboard.press("Enter")
        step_to(page, row.get_by_label("Name", exact=True))
        page.keyboard.press("Control+A")
        page.keyboard.type(one.name)
        step_to(page, row.get_by_label("Fixed arguments"))
        page.keyboard.type("\n".join(f"{k}={v}" for k, v in one.fixed.items()))
    press(page, "Save")
    page.get_by_text("The toolset is saved.").wait_for()
    return 3 + 2 * len(calls) + 1 + 3 * len(shaped)


def write_search(page: Page, text: str) -> None:
    """Write into the search of the form, and press Enter, which checks the form."""
    step_to(page, page.get_by_role("searchbox", name="Search", exact=True))
    page.keyboard.press("Control+A")
    page.keyboard.type(text) if text else page.keyboard.press("Delete")
    with page.expect_navigation():
        page.keyboard.press("Enter")


def check_files(hub: Hub, calls: Sequence[ToolsetCall]) -> list[str]:
    """Return what the two files of the page have otherwise than the file that a person would write."""
    wanted, found = describe_toolset(calls), []
    for name in ("mouse", "keys"):
        written = json.loads((hub.servers / f"{name}.json").read_text())
        if sorted(written["include"]) != sorted(wanted["include"]) or written["tools"] != wanted["tools"]:
            found.append(f"made by {name}: {json.dumps(written)}")
    return found


def run_agent(endpoint: str, calls: Sequence[ToolsetCall], expected: Mapping[str, str]) -> list[str]:
    """Have an agent with a scripted model call each tool; return what differs."""
    given = json.dumps({one.name: one.arguments for one in calls})
    command = [str(Path(sys.executable).with_name("uv")), "run", "--no-project", "--with", AGENT_PACKAGE]
    done = subprocess.run(
        [*command, "python", "-c", AGENT, endpoint, given],
        cwd=Path("/"),
        env={**os.environ, "PYDANTIC_AI_NO_BANNER": "1"},
        capture_output=True,
        text=True,
        timeout=AGENT_SECONDS,
    )
    if done.returncode != 0:
        return [f"the agent at {endpoint}: {done.stderr.strip().splitlines()[-1:]}"]
    said: Json = json.loads(done.stdout.strip().splitlines()[-1])
    found = []
    if set(said["listed"]) != set(expected):
        found.append(f"the agent at {endpoint} lists {said['listed']}")
    for name, text in expected.items():
        if not is_same(said["returned"].get(name), text):
            found.append(f"the agent at {endpoint}, {name}: {str(said['returned'].get(name))[:100]!r}")
    say(f"the agent at {endpoint}", f"{len(said['returned'])} answers, {len(found)} differences")
    return found


def is_same(returned: Any, text: str) -> bool:
    """Whether the framework gives a tool's text, or the structured value that the text writes down."""
    if isinstance(returned, Mapping) and set(returned) == {"content"}:
        return bool(returned["content"] == text)
    try:
        return bool(returned == text or returned == json.loads(text))
    except ValueError:
        return False
