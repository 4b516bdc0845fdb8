"""The processors of a measurement: the server on the first, the load on the last."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import processes
from benchmarks.contenders import RunningServer
from benchmarks.load import EXPECTED, RequestTemplate, measure_load, run_wrk
from benchmarks.processor_time import Cost, cost_of, wait_until_idle

WARM_UP_SECONDS = 1.0
"""Load before a measurement begins."""


@dataclass(frozen=True)
class Placement:
    """The processors of the server and of the load. They are the same where there is only one."""

    server: int
    load: int

    @contextmanager
    def on_load_processor(self) -> Iterator[None]:
        """Keep this program on the load's processor inside the block."""
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.load})
        try:
            yield
        finally:
            os.sched_setaffinity(0, allowed)

    @property
    def server_prefix(self) -> list[str]:
        """The command prefix that keeps a program on the server's processor."""
        return ["taskset", "--cpu-list", str(self.server)]

    @property
    def load_prefix(self) -> list[str]:
        """The command prefix that keeps a program on the load's processor."""
        return ["taskset", "--cpu-list", str(self.load)]

    def warm_up(
        self, server: RunningServer, request: RequestTemplate, connections: int, expected: str = EXPECTED
    ) -> None:
        """Call for a while; then move the processes that definitions run in to the load's processor."""
        run_wrk(request, WARM_UP_SECONDS, connections, self.load_prefix, expected)
        processes.bind_to_processor(processes.find_tool_processes(server.pid), self.load)

    def measure_cost(
        self,
        server: RunningServer,
        request: RequestTemplate,
        seconds: float,
        connections: int,
        expected: str = EXPECTED,
    ) -> Cost:
        """Measure calls and the processor time that the server takes for them, once it has finished earlier calls."""
        wait_until_idle(server.pid)
        return cost_of(server.pid, lambda: measure_load(request, seconds, connections, self.load_prefix, expected))


def choose_processors() -> Placement:
    """Choose processors of those that this program may use."""
    allowed = sorted(os.sched_getaffinity(0))
    return Placement(allowed[0], allowed[-1])
