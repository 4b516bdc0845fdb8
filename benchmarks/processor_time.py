"""The processor time of a server: user and system time of its process and of every process below it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load import Measured
from benchmarks.processes import below

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """What calls cost: microseconds of processor time for each, and the share of one processor that was busy."""

    processor_us: float
    core_share: float
    measured: Measured


def processor_seconds(pid: int) -> float:
    """Return the processor time of a server since it began, in seconds. Ended children count once they are reaped."""
    return sum(map(_ticks_of, {pid} | below(pid))) / TICKS_PER_SECOND


def cost_of(pid: int, load: Callable[[], Measured]) -> Cost:
    """Run a load against a server; return the processor time that the server took for it."""
    before = processor_seconds(pid)
    measured = load()
    used = processor_seconds(pid) - before
    return Cost(used / measured.requests * 1e6, used / (measured.requests / measured.rate), measured)


def _ticks_of(pid: int) -> int:
    """Return user and system ticks of a process and of its reaped children (`man 5 proc_pid_stat`, fields 14-17)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0
    return sum(map(int, fields[11:15]))
