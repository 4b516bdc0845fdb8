"""Definitions that attack the hub that runs them, and a hub with some protections switched off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.processes.confinement.protections import ALL, LANDLOCK, NAMESPACES
from tests.attacks.posting import post
from tests.serving.running import Hub, running

SPY = '''"""Does to the hub what a tool should not do."""

import os
import signal
import socket
from pathlib import Path


def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_bytes()[:20].hex()


def write_file(path: str) -> str:
    """Write a file."""
    Path(path).write_text("written by a tool")
    return "written"


def listing(path: str) -> list[str]:
    """List a folder."""
    return sorted(os.listdir(path))


def send_signal(pid: int, number: int) -> str:
    """Send a signal to a process."""
    os.kill(pid, number)
    return "sent"


def listen(host: str, port: int) -> str:
    """Listen on a port of an address, beside another program that listens there if the kernel permits it."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        listener.listen()
    return "listening"


def leave(name: str) -> list[str]:
    """Leave files in the working folder; the answer is what was there."""
    found = sorted(os.listdir("."))
    Path(name).mkdir()
    Path(name, "file").write_text("left")
    return found


def fill_shared_memory(mib: int) -> str:
    """Fill shared memory."""
    with Path("/dev/shm/filled").open("wb") as file:
        for _ in range(mib):
            file.write(bytes(1 << 20))
    return "filled"


def own_folder(context) -> list[str]:
    """Use the folder of this server, and a temporary file."""
    import tempfile
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    (context.folder / "kept").write_text("x")
    return sorted(os.listdir(context.folder))
'''

SHELL_SPY = '#!/bin/bash\n"$@"\n'
CONFIG = {"auto_discover": True, "memory": 64}

REFUSED = ("Permission", "No such file", "Operation not permitted", "No such process")
"""How a denial by the kernel appears in the message of a tool."""


def available() -> tuple[str, ...]:
    """Return the protections that this machine has."""
    hosts = WorkerPool(protections=ALL)
    try:
        return tuple(hosts.protections(60.0)["names"])
    finally:
        hosts.close()


HAS = available()
WAYS = [names for names in (ALL, (LANDLOCK,), (NAMESPACES,), ()) if set(names) <= set(HAS)]
"""All protections, each of two alone (a kernel may lack the other), and no protection."""


@contextmanager
def attacked(folder: Path, protections: tuple[str, ...], *arguments: str) -> Iterator[Hub]:
    """A hub with the definitions above, under these protections."""
    servers = folder / "servers"
    servers.mkdir()
    for name, text in (
        ("spy.py", SPY),
        ("spy.mcp.json", orjson.dumps(CONFIG).decode()),
        ("run.sh", SHELL_SPY),
        ("power.py", SPY),
        ("power.mcp.json", orjson.dumps(CONFIG | {"writes": ["/"]}).decode()),
    ):
        (servers / name).write_text(text)
    with running(folder, "--protections", ",".join(protections), *arguments) as hub:
        yield hub


def attack(hub: Hub, function: str, /, **arguments: Any) -> str:
    """Return the text, or the failure, of a function of the spy."""
    return _text_of(hub, "spy", function, arguments)


def attack_with_power(hub: Hub, function: str, /, **arguments: Any) -> str:
    """Call the spy that may change everything outside the hub."""
    return _text_of(hub, "power", function, arguments)


def command(hub: Hub, line: str) -> str:
    """Return the output of a command that runs as a shell tool."""
    return _text_of(hub, "run", "run", {"args": line})


def is_refused(failure: str) -> bool:
    """Whether an attack failed because the kernel denied it."""
    return any(word in failure for word in REFUSED)


def _text_of(hub: Hub, server: str, tool: str, arguments: dict[str, Any]) -> str:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    return post(hub, f"/mcp/{server}", message).text
