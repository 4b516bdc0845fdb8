"""The processors of a measurement: the server on the first, the load on the last."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import processes
from benchmarks.contenders import Running
from benchmarks.load import EXPECTED, Target, measure, send
from benchmarks.processor_time import Cost, cost_of, wait_until_idle

WARM_UP_SECONDS = 1.0
"""Load before a measurement begins."""


@dataclass(frozen=True)
class Placement:
    """The processors of the server and of the load. They are the same where there is only one."""

    server: int
    load: int

    @contextmanager
    def joined_load(self) -> Iterator[None]:
        """Keep this program on the load's processor for a while."""
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.load})
        try:
            yield
        finally:
            os.sched_setaffinity(0, allowed)

    @property
    def on_server(self) -> list[str]:
        """The command prefix that keeps a program on the server's processor."""
        return ["taskset", "--cpu-list", str(self.server)]

    @property
    def on_load(self) -> list[str]:
        """The command prefix that keeps a program on the load's processor."""
        return ["taskset", "--cpu-list", str(self.load)]

    def warm_up(self, found: Running, aim: Target, connections: int, expected: str = EXPECTED) -> None:
        """Call for a while; then move the processes that definitions run in to the load's processor."""
        send(aim, WARM_UP_SECONDS, connections, self.on_load, expected)
        processes.move(processes.hosts(found.pid), self.load)

    def cost(self, found: Running, aim: Target, seconds: float, connections: int, expected: str = EXPECTED) -> Cost:
        """Measure calls and the processor time that the server takes for them, once it has finished earlier calls."""
        wait_until_idle(found.pid)
        return cost_of(found.pid, lambda: measure(aim, seconds, connections, self.on_load, expected))


def choose_processors() -> Placement:
    """Choose processors of those that this program may use."""
    allowed = sorted(os.sched_getaffinity(0))
    return Placement(allowed[0], allowed[-1])
