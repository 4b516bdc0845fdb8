"""How the tests reach servers: the scripted one, and what of this process has to be as before afterwards."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from patchbay.client.addresses.targets import Stdio
from patchbay.client.connection.connection import Connection
from patchbay.processes import process_trees

SCRIPTED = Path(__file__).with_name("scripted.py")
ENVIRON: Mapping[str, str] = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "SECRET_KEY": "hidden"}


def scripted(*behaviour: str) -> Stdio:
    """The scripted server with these behaviours."""
    return Stdio(sys.executable, ("-S", str(SCRIPTED), *behaviour))


def opened(*behaviour: str, **options: Any) -> Connection:
    """A connection to the scripted server, which speaks the handshake."""
    known: dict[str, Any] = {"environ": ENVIRON, "era": "legacy", "start_timeout": 20}
    return Connection.open(scripted(*behaviour), **known | options)


def text(result: Mapping[str, Any]) -> str:
    """The text of a tool's result."""
    return "".join(part.get("text", "") for part in result["content"])


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> set[int]:
    """The processes that a process has started and that have not ended."""
    return set(process_trees.children_of(pid))


def descendants(leave_out: Collection[int] = ()) -> set[int]:
    """All processes below this one, without those below a process of `leave_out`."""
    found: set[int] = set()
    left = [os.getpid()]
    while left:
        below = children(left.pop())
        left += below - found - set(leave_out)
        found |= below
    return found


def held() -> tuple[set[int], int, int]:
    """What this process holds: descendants, descriptors, threads."""
    return descendants(), len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208
