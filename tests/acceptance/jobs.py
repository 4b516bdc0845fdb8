"""Twelve jobs of a new user's first hour, typed as the documents print them, with the number of steps and the seconds.

Each job runs in one folder with an empty home, beside one hub on a free port. A step is a command that a person types
or a file that a person saves; its answer has to contain what the person looks for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance.fresh import is_ready, network_environment, wait_for
from tests.checkout import ROOT
from tests.interaction.programs import free_port, plain_environment

STEP_SECONDS = 30.0
"""Seconds that one step may take; a package may have to be fetched."""

DIFFERS = 6
"""Exit code of `patchbay diff` for two versions that differ."""

GREETER = '''def greet(name: str, excited: bool = False) -> str:
    """Greet a person."""
    return f"Hello, {name}{'!' if excited else '.'}"
'''
FAILING = '''def total(prices: list[float]) -> float:
    """Add prices."""
    rates = {"EUR": 1.0}
    return sum(prices) * rates["USD"]
'''
MISNAMED = '''def rows(table: lst[dict]) -> int:
    """Count rows."""
    return len(table)
'''
ASKING = '''def wipe(name: str) -> str:
    """Remove a table."""
    return f"removed {name}"
'''
CLOCK = {"mcpServers": {"clock": {"command": "uvx", "args": ["mcp-server-time"]}}}
CURSOR = {
    "mcpServers": {
        "memory": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-memory"],
            "env": {"MEMORY_FILE_PATH": "memory.json", "API_KEY": "sk-live-4b1c0de5a7e8f9a0b1c2"},
        }
    }
}


class Wrong(Exception):
    """A step that did not answer what it has to; the text says what it answered."""


@dataclass
class NewUser:
    """A person at a terminal, with an empty home, in a folder of a project."""

    folder: Path
    port: int = field(default_factory=free_port)
    steps: int = 0

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a terminal in which `patchbay` is found."""
        plain = plain_environment(self.folder / "home")
        own = {"PATCHBAY_DATA": str(self.folder / "data"), "PATCHBAY_SERVERS": str(self.folder / "servers")}
        return network_environment() | plain | own | {"PATH": f"{ROOT / '.venv' / 'bin'}{os.pathsep}{plain['PATH']}"}

    @property
    def url(self) -> str:
        """The address of the hub."""
        return f"http://127.0.0.1:{self.port}"

    def save(self, path: str, content: str | dict[str, Any]) -> None:
        """Save a file; an object is saved as JSON."""
        self.steps += 1
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))

    def run(self, *words: str, code: int = 0) -> str:
        """Type a command; return what it prints on both outputs. Raises Wrong for another exit code."""
        self.steps += 1
        return self._ended(words, code)

    def see(self, expected: str, *words: str, code: int = 0) -> str:
        """Type a command until it prints what is expected, which counts as one step. Raises Wrong."""
        self.steps += 1
        end, pause = time.monotonic() + STEP_SECONDS, 0.1
        while True:
            try:
                printed = self._ended(words, code)
                if expected in printed:
                    return printed
            except Wrong as problem:
                printed = str(problem)
            if time.monotonic() > end:
                raise Wrong(f"{' '.join(words)}: expected {expected!r} in: {printed}")
            time.sleep(pause)

    def call(self, server: str, tool: str, arguments: dict[str, Any]) -> str:
        """Let a client that cannot ask its user call a tool; return the whole answer."""
        self.steps += 1
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = urllib.request.Request(f"{self.url}/mcp/{server}", json.dumps(message).encode(), headers)
        with urllib.request.urlopen(request, timeout=STEP_SECONDS) as answer:
            return str(answer.read().decode())

    def _ended(self, words: tuple[str, ...], code: int) -> str:
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=STEP_SECONDS
        )
        if done.returncode != code:
            raise Wrong(f"{' '.join(words)}: exit code {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr


def write_a_tool(user: NewUser) -> None:
    """Write a tool and call it."""
    user.save("servers/greeter.py", GREETER)
    user.see("Hello, Ada.", "patchbay", "call", "/mcp/greeter", "greet", "name=Ada")


def give_it_to_claude_desktop(user: NewUser) -> None:
    """Write the tool into the settings of Claude Desktop, and use it over standard input and output."""
    user.run("patchbay", "install", "claude-desktop", "greeter", "--yes")
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "claude-desktop", "version": "1"},
    }
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "greet", "arguments": {"name": "Ada"}}},
    ]
    user.steps += 1
    lines = "".join(f"{json.dumps(one)}\n" for one in messages)
    done = subprocess.run(
        ("patchbay", "stdio", "greeter"),
        cwd=user.folder,
        env=user.environment,
        input=lines,
        capture_output=True,
        text=True,
        timeout=STEP_SECONDS,
    )
    if "Hello, Ada." not in done.stdout:
        raise Wrong(f"patchbay stdio greeter: {done.stdout}{done.stderr}")


def find_an_exception(user: NewUser) -> None:
    """Find the line at which a tool failed, in the answer and in the log."""
    user.save("servers/prices.py", FAILING)
    line = 'rates["USD"]'
    user.see(line, "patchbay", "call", "/mcp/prices", "total", "prices=[1,2]", code=1)
    user.see(line, "patchbay", "logs", "prices", "--errors")


def find_a_wrong_annotation(user: NewUser) -> None:
    """Find the line of an annotation that names nothing."""
    user.save("servers/tables.py", MISNAMED)
    user.see("lst", "patchbay", "show", "tables")
    user.run("patchbay", "remove", "tables", "--yes")


def paste_a_configuration(user: NewUser) -> None:
    """Save the configuration that a server's page shows for Claude Desktop, and call the server."""
    user.save("servers/clock.json", CLOCK)
    user.see('"timezone"', "patchbay", "call", "/mcp/clock", "get_current_time", "timezone=UTC")


def import_from_cursor(user: NewUser) -> None:
    """Bring a server of Cursor into the hub: its key becomes a reference, its path stays."""
    user.save("home/.cursor/mcp.json", CURSOR)
    user.see("memory", "patchbay", "import")
    user.see("API_KEY", "patchbay", "import", "cursor", "memory")
    made = json.loads((user.folder / "servers" / "memory.json").read_text())
    if "${" in json.dumps(made["environment"]["MEMORY_FILE_PATH"]) or "sk-live" in json.dumps(made):
        raise Wrong(f"servers/memory.json: {made}")
    user.run("patchbay", "import", "cursor", "memory")


def roll_back(user: NewUser) -> None:
    """Change a tool, compare both versions, and go back."""
    user.save("servers/greeter.py", GREETER.replace("Hello", "Good day"))
    user.see("Good day, Ada.", "patchbay", "call", "/mcp/greeter", "greet", "name=Ada")
    user.see("Good day", "patchbay", "diff", "greeter", code=DIFFERS)
    user.run("patchbay", "rollback", "greeter")
    user.see("Hello, Ada.", "patchbay", "call", "/mcp/greeter", "greet", "name=Ada")


def give_a_key(user: NewUser) -> None:
    """Make a key for one tool; a mistyped grant is refused before the key exists."""
    user.run("patchbay", "key", "new", "wrong", "--grants", "call:greeter/greet", code=2)
    user.run("patchbay", "key", "new", "laptop", "--grants", "call:greeter.greet")
    user.see("laptop", "patchbay", "key", "list")


def approve_a_call(user: NewUser) -> None:
    """Let a tool ask before it runs, find the waiting call, and approve it."""
    user.save("servers/tables.py", ASKING)
    user.save("servers/tables.mcp.json", {"tools": {"wipe": {"approve": True}}})
    user.see("wipe", "patchbay", "show", "tables")
    user.call("tables", "wipe", {"name": "old"})
    waiting = json.loads(user.see("wipe", "patchbay", "approvals", "list", "--json"))
    user.run("patchbay", "approvals", "approve", waiting["id"])
    if "removed old" not in user.call("tables", "wipe", {"name": "old"}):
        raise Wrong("the approved call did not run")


def find_a_failed_call(user: NewUser) -> None:
    """Find why a call failed: its arguments were refused."""
    user.run("patchbay", "call", "/mcp/greeter", "greet", "excited=maybe", code=1)
    user.see("name", "patchbay", "logs", "greeter", "--errors")


def share_in_a_room(user: NewUser) -> None:
    """Make a room by its name alone, and find it in the list."""
    user.run("patchbay", "room", "create", "demo")
    user.see("demo", "patchbay", "room", "list")


def search_notes(user: NewUser) -> None:
    """Serve a folder of notes, and search it."""
    user.save("notes/tea.md", "# Tea\n\nSteep green tea at 70 degrees.\n")
    user.run("patchbay", "new", "notes", "--folder", "notes")
    user.see("Tea", "patchbay", "call", "/mcp/notes", "search", "query=green")


JOBS: tuple[Callable[[NewUser], None], ...] = (
    write_a_tool,
    give_it_to_claude_desktop,
    find_an_exception,
    find_a_wrong_annotation,
    paste_a_configuration,
    import_from_cursor,
    roll_back,
    give_a_key,
    approve_a_call,
    find_a_failed_call,
    share_in_a_room,
    search_notes,
)


def do_jobs(folder: Path, only: str = "") -> bool:
    """Do the jobs whose names contain `only`; print a line for each, and return whether all were done."""
    user = NewUser(folder)
    for name in ("home", "servers"):
        (folder / name).mkdir()
    hub = _start_hub(user)
    is_done = True
    try:
        for number, job in enumerate(JOBS, 1):
            if only not in job.__name__:
                continue
            user.steps, begun = 0, time.monotonic()
            try:
                job(user)
                outcome = "done"
            except (Wrong, OSError, subprocess.TimeoutExpired) as problem:
                is_done, outcome = False, f"FAILED: {str(problem)[:600]}"
            title = str(job.__doc__).partition(",")[0].rstrip(".")
            seconds = time.monotonic() - begun
            sys.stdout.write(f"{number:2} {title}: {user.steps} steps, {seconds:.1f} s, {outcome}\n")
            sys.stdout.flush()
    finally:
        hub.send_signal(signal.SIGTERM)
        hub.wait(STEP_SECONDS)
    return is_done


def _start_hub(user: NewUser) -> subprocess.Popen[bytes]:
    log = user.folder / "log"
    with log.open("wb") as output:
        hub = subprocess.Popen(
            ("patchbay", "serve", "--port", str(user.port)),
            cwd=user.folder,
            env=user.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )

    def check_running() -> None:
        if hub.poll() is not None:
            raise RuntimeError(f"the hub ended with exit code {hub.returncode}: {log.read_text()}")

    wait_for(lambda: is_ready(user.url), check_running)
    return hub
