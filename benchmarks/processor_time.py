"""The processor time of a server: user and system time of its process and of every process below it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load import LoadResult
from benchmarks.processes import find_descendants
from patchbay.processes.processor_clock import ProcessorClock

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

IDLE_SECONDS, IDLE_TICKS = 0.2, 1
"""A server is idle when it takes at most so many ticks in so many seconds."""

MAX_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Cost:
    """What calls cost: microseconds of processor time for each, and the share of one processor that was busy."""

    processor_us: float
    core_share: float
    measured: LoadResult


def processor_seconds(pid: int) -> float:
    """Return the processor time of a server since it began, in seconds. Ended children count once they are reaped."""
    return sum(map(_seconds_of, {pid} | find_descendants(pid)))


def cost_of(pid: int, load: Callable[[], LoadResult]) -> Cost:
    """Run a load against a server; return the processor time that the server took for it."""
    before = processor_seconds(pid)
    measured = load()
    used = processor_seconds(pid) - before
    return Cost(used / measured.requests * 1e6, used / (measured.requests / measured.rate), measured)


def wait_until_idle(pid: int) -> None:
    """Wait until a server takes nearly no processor time. Raises RuntimeError after MAX_WAIT_SECONDS."""
    end = time.monotonic() + MAX_WAIT_SECONDS
    while time.monotonic() < end:
        before = processor_seconds(pid)
        time.sleep(IDLE_SECONDS)
        if processor_seconds(pid) - before <= IDLE_TICKS / TICKS_PER_SECOND:
            return
    raise RuntimeError(f"the server of process {pid} is still busy {MAX_WAIT_SECONDS:g} s after its last call")


def _seconds_of(pid: int) -> float:
    """Return the processor time of a process, to the nanosecond, and that of its reaped children, to the tick.

    Source: `man 5 proc_pid_stat`, fields 16 and 17.
    """
    own = ProcessorClock(pid).nanoseconds() / 1e9
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return own + sum(map(int, fields[13:15])) / TICKS_PER_SECOND
