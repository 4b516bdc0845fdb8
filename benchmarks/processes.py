"""Reads from /proc the processes of a running hub, their memory and their processor time."""

from __future__ import annotations

import os
from collections.abc import Set
from pathlib import Path

FORK_SERVER = "patchbay-hosts"
"""Name of the process that forks the processes of the tools."""


def find_children() -> dict[int, list[int]]:
    """Map each process id to the ids of its children."""
    found: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        found.setdefault(parent, []).append(int(stat.parent.name))
    return found


def find_descendants(pid: int) -> set[int]:
    """Return the ids of all processes below a process."""
    tree, found, level = find_children(), set[int](), [pid]
    while level := [one for parent in level for one in tree.get(parent, ())]:
        found.update(level)
    return found


def find_tool_processes(pid: int) -> set[int]:
    """Return the processes that run the tools of a hub, and the processes that fork them."""
    fork_servers = {one for one in find_descendants(pid) if _read(one, "comm").strip() == FORK_SERVER}
    return fork_servers.union(*map(find_descendants, fork_servers))


def _read(pid: int, name: str) -> str:
    """Return what the system says about a process; "" when it has just ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def bind_to_processor(pids: Set[int], processor: int) -> None:
    """Bind processes and their later children to a processor."""
    for pid in pids:
        try:
            os.sched_setaffinity(pid, {processor})
        except ProcessLookupError:  # it has just ended
            continue


def memory_bytes(pid: int) -> int:
    """Return the memory of a hub in bytes (PSS), without the processes of its tools."""
    return sum(map(_proportional_bytes, ({pid} | find_descendants(pid)) - find_tool_processes(pid)))


def has_ended(pid: int) -> bool:
    """Whether a process has ended; one that its parent has not reaped yet counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a hub's live processes in seconds, without the processes of its tools."""
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(_count_ticks(one) for one in ({pid} | find_descendants(pid)) - find_tool_processes(pid)) / ticks


def _count_ticks(pid: int) -> int:
    rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(rest[11]) + int(rest[12])


def _proportional_bytes(pid: int) -> int:
    """Return the proportional set size (PSS): private memory, and the process's share of shared memory."""
    rows = _read(pid, "smaps_rollup").splitlines()
    return next((int(row.split()[1]) for row in rows if row.startswith("Pss:")), 0) * 1024
