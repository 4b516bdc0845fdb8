"""What a running hub consists of, as the kernel tells: its web worker, its hosts, and the memory these have in use."""

from __future__ import annotations

import os
from collections.abc import Set
from pathlib import Path

HOLDER = "patchbay-hosts"
"""Name of the process that forks the hosts."""


def children() -> dict[int, list[int]]:
    """Every process to those it started."""
    found: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        found.setdefault(parent, []).append(int(stat.parent.name))
    return found


def below(pid: int) -> set[int]:
    """All that a process started, however deep."""
    tree, found, level = children(), set[int](), [pid]
    while level := [one for parent in level for one in tree.get(parent, ())]:
        found.update(level)
    return found


def hosts(pid: int) -> set[int]:
    """The processes that definitions of a hub run in, and those that fork them."""
    holders = {one for one in below(pid) if Path(f"/proc/{one}/comm").read_text().strip() == HOLDER}
    return holders.union(*map(below, holders))


def move(pids: Set[int], processor: int) -> None:
    """Bind processes to a processor; their later children run there too."""
    for pid in pids:
        try:
            os.sched_setaffinity(pid, {processor})
        except ProcessLookupError:  # it has just ended
            continue


def memory(pid: int) -> int:
    """Bytes of memory that a hub has in use beside what its processes share, its hosts not counted."""
    return sum(map(_own, ({pid} | below(pid)) - hosts(pid)))


def is_over(pid: int) -> bool:
    """Whether a process has ended, even if the one that started it has not asked yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def seconds(pid: int) -> float:
    """Processor time that a hub has taken, its hosts not counted: user and system, of what runs."""
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(_ticks(one) for one in ({pid} | below(pid)) - hosts(pid)) / ticks


def _ticks(pid: int) -> int:
    rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(rest[11]) + int(rest[12])


def _own(pid: int) -> int:
    """Bytes that belong to a process alone, and its share of what several have."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("Pss:")) * 1024
