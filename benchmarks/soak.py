"""A soak test: a hub with many listeners, steady calls, a definition that changes, and workers that are replaced.

    .venv/bin/python -m benchmarks.soak                     10 minutes, 10,000 listeners, 300 calls a second
    .venv/bin/python -m benchmarks.soak --minutes 1 --listeners 2000 --replace 20
    .venv/bin/python -m benchmarks.soak --json soak.json    write the report; see scripts/bench --soak

A definition changes each second; each listener that was connected before a change has to receive a notification after
it. When a worker is replaced (SIGHUP), its listeners open new streams. Every answer to a call is checked. Memory and
descriptors of the workers are sampled every few seconds while all listeners are connected.
The exit code is 1 when an answer is wrong or a notification is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from benchmarks import processes
from benchmarks.contenders import run_hub
from benchmarks.listeners import ListenerPool, changing_url, prepare_listen, raise_file_limit, until, write_definition
from benchmarks.load import EXPECTED, MODERN, RequestTemplate, prepare_request
from benchmarks.reporting.machine import describe_machine
from benchmarks.reporting.soak_report import Sample, SoakReport, soak_table, write_soak

CALLER_THREADS = 8

MAX_NOTIFICATION_SECONDS = 30.0
"""A notification that takes longer is lost."""

MAX_REPEATS, REPEAT_SECONDS = 20, 0.05
"""How often a call is sent again after a refusal (503) or a closed connection, and the time before each repeat."""

SAMPLE_SECONDS = 5.0
"""Time between two samples of memory and descriptors."""

START_SECONDS = 3.0
"""Time for the hub to serve the changing definition before the streams are opened."""


@dataclass
class Counts:
    """The figures of a running test; `SoakReport` describes them."""

    calls: int = 0
    wrong_answers: Counter[str] = field(default_factory=Counter)
    repeated_calls: int = 0
    changes: int = 0
    lost_notifications: int = 0
    slowest_notification_seconds: float = 0.0
    replaced_workers: int = 0


class Callers:
    """Threads that call `echo`, together at a steady rate (calls per second).

    With several requests, which have the addresses of several hubs, each call and each repeat takes the next one.
    """

    def __init__(self, requests: Sequence[RequestTemplate], rate: float, counts: Counts) -> None:
        self._requests = requests
        self._interval = CALLER_THREADS / rate
        self._counts = counts
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._call_steadily) for _ in range(CALLER_THREADS)]

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _call_steadily(self) -> None:
        connections = [http.client.HTTPConnection(urlsplit(one.url).netloc, timeout=60) for one in self._requests]
        turns = cycle(zip(self._requests, connections, strict=True))
        number, due = 0, time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            due = max(due + self._interval, time.monotonic() - 1)
            number += 1
            fault = self._call(*next(turns), number)
            repeats = 0
            while fault is None and repeats < MAX_REPEATS:
                repeats += 1
                self._stopped.wait(REPEAT_SECONDS)
                fault = self._call(*next(turns), number)
            fault = f"no answer after {repeats} repeats" if fault is None else fault
            with self._lock:
                self._counts.calls += 1
                self._counts.repeated_calls += repeats
                if fault:
                    self._counts.wrong_answers[fault] += 1
        for connection in connections:
            connection.close()

    def _call(self, request: RequestTemplate, connection: http.client.HTTPConnection, number: int) -> str | None:
        """Call once; return the fault of the answer, empty when it is right, None when the call has to be repeated."""
        body = f"{request.body[0]}{number}{request.body[1]}"
        try:
            connection.request("POST", urlsplit(request.url).path, body, dict(request.headers))
            response = connection.getresponse()
            data = response.read()
        except (ConnectionError, http.client.BadStatusLine):
            connection.close()
            return None
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            return type(problem).__name__
        if response.status == 503:
            return None
        if response.status != 200:
            return f"status {response.status}"
        # The hub answers a slow call with a stream of events; the last event is the response.
        message = json.loads(data.rpartition(b"data: ")[2])
        is_right = message.get("id") == number and EXPECTED in json.dumps(message.get("result", {}))
        return "" if is_right else "another answer"


async def change_definition(
    pools: Sequence[ListenerPool], servers: Path, counts: Counts, seconds: float, end: float
) -> None:
    """Change the definition each `seconds` until the monotonic time `end`; count them and their notifications."""
    waiting: set[asyncio.Task[None]] = set()
    while time.monotonic() < end:
        counts.changes += 1
        changed_at = time.monotonic()
        write_definition(servers, counts.changes)
        waiting.add(asyncio.create_task(_wait_for_notifications(pools, counts, changed_at)))
        await asyncio.sleep(max(0.0, seconds - (time.monotonic() - changed_at)))
    await asyncio.gather(*waiting)


async def _wait_for_notifications(pools: Sequence[ListenerPool], counts: Counts, changed_at: float) -> None:
    """Wait until each listener of the time of a change has a notification or is disconnected."""
    missing = [one for pool in pools for one in pool.opened_before(changed_at)]
    while missing and time.monotonic() < changed_at + MAX_NOTIFICATION_SECONDS:
        await asyncio.sleep(0.1)
        missing = [each for each in missing if each.notified_at < changed_at and not each.closed_at]
    seconds = time.monotonic() - changed_at
    counts.slowest_notification_seconds = max(counts.slowest_notification_seconds, seconds)
    counts.lost_notifications += len(missing)


class SoakTest:
    """One soak test. The fields of `options` are the options of the command line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._counts = Counts()
        self._samples: list[Sample] = []
        self._start = self._end = 0.0

    async def run(self) -> SoakReport:
        """Start a hub, put the load on it, end it, and return the report."""
        options = self._options
        began, machine = datetime.now(UTC).isoformat(timespec="seconds"), describe_machine()
        limits = ["--listeners", str(options.listeners + 1000), "--connections", str(options.listeners + 2000)]
        limits += ["--workers", str(options.workers)]
        with tempfile.TemporaryDirectory() as name, run_hub("inline", Path(name), (), limits) as hub:
            servers = next(Path(name).rglob("bench.py")).parent
            write_definition(servers, 0)
            await asyncio.sleep(START_SECONDS)
            pool = ListenerPool(prepare_listen(changing_url(hub.url)), reconnects=True)
            await pool.open_streams(options.listeners)
            self._start = time.monotonic()
            self._end = self._start + 60 * options.minutes
            with Callers([prepare_request(hub.url, MODERN)], options.rate, self._counts):
                await asyncio.gather(
                    change_definition([pool], servers, self._counts, options.change, self._end),
                    self._replace_workers(hub.pid),
                    self._sample(pool, hub.pid),
                )
            pool.reconnects = False
            os.kill(hub.pid, signal.SIGTERM)
            await until(lambda: processes.has_ended(hub.pid), "the hub ends")
        return SoakReport(
            began=began,
            machine=machine,
            duration_seconds=60 * options.minutes,
            listeners=options.listeners,
            calls_per_second=options.rate,
            workers=options.workers,
            **vars(self._counts),
            samples=self._samples,
        )

    def _is_running(self) -> bool:
        return time.monotonic() < self._end

    async def _replace_workers(self, pid: int) -> None:
        while self._is_running():
            await asyncio.sleep(min(self._options.replace, max(0.0, self._end - time.monotonic())))
            if self._end - time.monotonic() > min(30.0, self._options.replace / 2):
                os.kill(pid, signal.SIGHUP)
                self._counts.replaced_workers += 1

    async def _sample(self, pool: ListenerPool, pid: int) -> None:
        while self._is_running():
            await asyncio.sleep(SAMPLE_SECONDS)
            now = time.monotonic()
            if len(pool.opened_before(now)) == self._options.listeners:
                with suppress(OSError):  # a process has just ended
                    memory, descriptors = processes.memory_bytes(pid) // 1024, _count_descriptors(pid)
                    self._samples.append(Sample(round(now - self._start, 1), memory, descriptors))


def _count_descriptors(pid: int) -> int:
    """Count the open file descriptors of the workers of a hub."""
    workers = processes.find_descendants(pid) - processes.find_tool_processes(pid)
    return sum(1 for worker in workers for _ in Path(f"/proc/{worker}/fd").iterdir())


def print_report(report: SoakReport) -> None:
    """Print the table of a report."""
    console = Console(soft_wrap=True, highlight=False)
    for name, unit, value in soak_table(report).rows:
        console.print(f"{name:<52} {value} {unit}".rstrip(), markup=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; print the report. 1 when an answer is wrong or a notification is lost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="Run a soak test of one hub.")
    parser.add_argument("--minutes", type=float, default=10.0, help="duration (default: 10)")
    parser.add_argument("--listeners", type=int, default=10_000, help="open streams (default: 10,000)")
    parser.add_argument("--rate", type=float, default=300.0, help="calls a second (default: 300)")
    parser.add_argument("--change", type=float, default=1.0, help="seconds between two changes (default: 1)")
    parser.add_argument("--replace", type=float, default=60.0, help="seconds between two SIGHUP (default: 60)")
    parser.add_argument("--workers", type=int, default=1, help="worker processes (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report to this file")
    options = parser.parse_args(arguments)
    raise_file_limit()
    report = asyncio.run(SoakTest(options).run())
    if options.json:
        write_soak(report, options.json)
    print_report(report)
    return 0 if report.is_correct else 1


if __name__ == "__main__":
    sys.exit(main())
