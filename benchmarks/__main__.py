"""How fast this hub is beside FastMCP, the official Python SDK, and Flask without any protocol.

Rules: one after the other on the same machine in the same run, each with one worker on a processor of its own;
the load comes from another processor and never leaves the machine. The processes that definitions run in are beside
the load: the comparison shows the cost of the hub itself. README.md explains the output.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import pages, processes, report
from benchmarks.contenders import CONTENDERS, ISOLATIONS, Contender, Running, hub
from benchmarks.load import MODERN, Measured, Target, measure, target
from benchmarks.mounts import Added, added
from benchmarks.streams import Cost, Delay, delay, listening

WARM = 1.0
"""Seconds of load before a measurement begins."""

FIRST = 10
"""Streamed calls before those that are measured."""


class Bench:
    """Measures with the server on one processor and the load on another."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._server, *_, self._load = sorted(os.sched_getaffinity(0)) * 2
        # The streams are read by this program itself.
        os.sched_setaffinity(0, {self._load})

    def compare(self, contender: Contender) -> tuple[dict[str, Measured], dict[str, Delay]]:
        """Start one contender and measure it in each of its revisions: its rates, and its delays where it streams."""
        rates, delays = {}, {}
        with tempfile.TemporaryDirectory() as name, contender.start(Path(name), _only(self._server)) as found:
            for revision in contender.revisions:
                aim = target(found.url, revision)
                self._warm(found, aim)
                rates[revision] = self._rate(aim)
                if contender.streams:
                    delay(found.url, revision, FIRST)
                    delays[revision] = delay(found.url, revision, self._given.calls)
        return rates, delays

    def cost(self, isolation: str) -> Cost:
        """What open streams cost a hub: calls without them, beside them, and without them again."""
        streams = self._given.streams
        room = [
            "--listeners",
            str(streams + 32),
            "--threads",
            str(streams + 256),
            "--connections",
            str(2 * streams + 512),
        ]
        folder = tempfile.TemporaryDirectory()
        with folder as name, hub(isolation, Path(name), _only(self._server), room) as found:
            aim = target(found.url, MODERN)
            self._warm(found, aim)
            before, memory = self._rate(aim).rate, processes.memory(found.pid)
            with listening(found.url, streams):
                beside, more = self._rate(aim).rate, processes.memory(found.pid) - memory
            return Cost(streams, (before + self._rate(aim).rate) / 2, beside, more / 1024 / streams)

    def mounted(self) -> dict[str, Added]:
        """What a mount adds to a call, by the revision that is spoken on both sides."""
        with tempfile.TemporaryDirectory() as name:
            return added(Path(name), self._given.calls)

    def _warm(self, found: Running, aim: Target) -> None:
        """Call for a while, then put the processes that this has started beside the load."""
        measure(aim, WARM, self._given.connections, _only(self._load))
        processes.move(processes.hosts(found.pid), self._load)

    def _rate(self, aim: Target) -> Measured:
        return measure(aim, self._given.seconds, self._given.connections, _only(self._load))


def _only(processor: int) -> list[str]:
    """The command prefix that keeps a program on a processor."""
    return ["taskset", "--cpu-list", str(processor)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; answers the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure calls and streams, side by side.")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each measurement lasts (default: 8)")
    parser.add_argument("--connections", type=int, default=16, help="connections held open (default: 16)")
    parser.add_argument("--calls", type=int, default=200, help="streamed calls in each measurement (default: 200)")
    parser.add_argument("--streams", type=int, default=1000, help="open streams beside calls (default: 1000)")
    given = parser.parse_args(arguments)
    missing = [name for name in ("wrk", "taskset") if shutil.which(name) is None]
    if missing:
        parser.error(f"{' and '.join(missing)} missing; on Debian: apt-get install wrk util-linux")
    bench, rates, costs = Bench(given), {}, {}
    delays: dict[str, dict[str, Delay]] = {}
    for contender in CONTENDERS:
        sys.stderr.write(f"measuring {contender.name}\n")
        rates[contender.name], delayed = bench.compare(contender)
        delays |= {contender.name: delayed} if delayed else {}
    for name, isolation in ISOLATIONS.items():
        sys.stderr.write(f"measuring {name} with {given.streams} open streams\n")
        costs[name] = bench.cost(isolation)
    sys.stderr.write("measuring a mount\n")
    mounted = bench.mounted()
    sys.stderr.write("measuring the pages of a large hub\n")
    opened = pages.measured()
    console = Console(width=None if sys.stdout.isatty() else 110)
    tables = [report.rates(rates, given.connections), report.delays(delays), report.costs(costs)]
    tables += [report.mounts(mounted), pages.table(opened)]
    console.print(*tables, report.goals(rates, delays, costs, opened), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
