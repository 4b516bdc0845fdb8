"""`patchbay stdio NAME` without a running hub: it starts what NAME needs, and the rest when a tool calls it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.reaching import SCRIPTED
from tests.interaction.programs import plain_environment
from tests.kinds.python.workers.conversing import family
from tests.serving.test_stdio_process import OPEN, Child, started
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

MOUNTS = ("first", "second", "third")

GREETER = '''"""Greets."""


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}"


def ask_first(text: str, context) -> str:
    """Ask the first mounted server."""
    return context.call("first", "echo", text=text)["content"][0]["text"]
'''


def place_servers(folder: Path) -> None:
    servers = folder / "servers"
    servers.mkdir()
    (servers / "greeter.py").write_text(GREETER)
    for name in MOUNTS:
        entry = {"command": sys.executable, "args": ["-S", str(SCRIPTED), f"mount-{name}"]}
        (servers / f"{name}.json").write_text(json.dumps(entry))


def started_mounts(child: Child) -> set[str]:
    """The mounted servers whose programs run below a process."""
    lines = []
    for process in family(child.process.pid):
        try:
            lines.append(Path(f"/proc/{process}/cmdline").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return {name for name in MOUNTS if any(f"mount-{name}" in line for line in lines)}


def test_a_tool_that_calls_a_mounted_server_starts_that_one(tmp_path: Path) -> None:
    """Also at the first start, when the hub has never read the lists of the mounted server."""
    place_servers(tmp_path)
    with started(tmp_path, "greeter") as child:
        child.ask("initialize", OPEN)
        called = child.ask("tools/call", {"name": "ask_first", "arguments": {"text": "hello"}}, 2)["result"]
        assert not called.get("isError"), called
        assert json.loads(called["content"][0]["text"]) == {"text": "hello"}
        assert started_mounts(child) == {"first"}


def test_a_mounted_server_starts_its_own_program_alone(tmp_path: Path) -> None:
    place_servers(tmp_path)
    with started(tmp_path, "second") as child:
        child.ask("initialize", OPEN)
        until(lambda: child.ask("tools/list", {}, 2)["result"]["tools"], "the mounted server has answered")
        assert started_mounts(child) == {"second"}


def test_all_servers_start_for_the_address_of_all(tmp_path: Path) -> None:
    place_servers(tmp_path)
    with started(tmp_path, "") as child:
        child.ask("initialize", OPEN)
        until(lambda: started_mounts(child) == set(MOUNTS), "all mounted programs run")


def test_a_command_that_calls_one_server_reaches_no_other(tmp_path: Path) -> None:
    """`patchbay call /mcp/greeter` opens a hub in its process too."""
    place_servers(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as far:
        address = f"http://127.0.0.1:{far.getsockname()[1]}/mcp"
        (tmp_path / "servers" / "far.json").write_text(json.dumps({"kind": "upstream", "address": address}))
        command = [sys.executable, "-m", "patchbay", "call", "/mcp/greeter", "greet", "name=you", "--text"]
        own = {"PATCHBAY_DATA": str(tmp_path / "data"), "PATCHBAY_SERVERS": str(tmp_path / "servers")}
        environment = plain_environment(tmp_path) | own
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND, check=False)
        assert ended.stdout.strip() == "Hello, you", ended.stderr
        far.setblocking(False)
        with pytest.raises(BlockingIOError):  # no connection waits to be accepted
            far.accept()
