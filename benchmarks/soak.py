"""A hub under everything at once: listeners, calls, changes of a definition, and workers that are replaced.

    .venv/bin/python -m benchmarks.soak                     10 minutes, 10,000 listeners, 300 calls a second
    .venv/bin/python -m benchmarks.soak --minutes 1 --listeners 2000 --replace 20

A definition changes each second; each listener that was there before a change has to be told of one after it. A
listener whose worker is replaced opens another stream. Each answer to a call is looked at. Workers are replaced on
SIGHUP. Memory and descriptors of the workers are read every few seconds, when all listeners are there.
The exit code is 0 when no answer was wrong and no change was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import processes
from benchmarks.contenders import hub
from benchmarks.listeners import LISTEN, Crowd, change, until
from benchmarks.load import MODERN, Target, target

CALLERS = 8
"""Threads that call."""

TOLD_SECONDS = 30.0
"""How long a change may take to reach every listener. It is lost after that."""

TRIES, TRY_SECONDS = 20, 0.05
"""How often a call is sent again that was refused (503) or whose connection was closed, and the time between."""

SAMPLE_SECONDS = 5.0
"""Time between two looks at memory and descriptors."""


@dataclass
class Found:
    """What went on so far."""

    calls: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    changes: int = 0
    lost: int = 0
    slowest: float = 0.0
    replaced: int = 0
    samples: list[dict[str, int]] = field(default_factory=list)


class Callers:
    """Threads that call `echo` again and again, together `rate` times a second."""

    def __init__(self, aim: Target, rate: float, found: Found) -> None:
        self._aim = aim
        self._pause = CALLERS / rate
        self._found = found
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._work) for _ in range(CALLERS)]

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        address = urlsplit(self._aim.url).netloc
        connection, number, due = http.client.HTTPConnection(address, timeout=60), 0, time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due = max(due + self._pause, time.monotonic() - 1)
            number += 1
            fault = self._call(connection, number)
            tries = 0
            # The worker at the other end ends and closed the connection, or has no place now: call again.
            while fault is None and tries < TRIES:
                tries += 1
                self._over.wait(TRY_SECONDS)
                fault = self._call(connection, number)
            fault = f"no answer after {tries} tries" if fault is None else fault
            with self._lock:
                self._found.calls += 1
                self._found.repeated += tries
                if fault:
                    self._found.wrong[fault] += 1
        connection.close()

    def _call(self, connection: http.client.HTTPConnection, number: int) -> str | None:
        """Why the answer to a call is wrong, empty when it is right; None when it is to be sent again."""
        body = f"{self._aim.body[0]}{number}{self._aim.body[1]}"
        try:
            connection.request("POST", urlsplit(self._aim.url).path, body, dict(self._aim.headers))
            answer = connection.getresponse()
            data = answer.read()
        except (ConnectionError, http.client.BadStatusLine):
            connection.close()
            return None
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            return type(problem).__name__
        if answer.status == 503:
            return None
        if answer.status != 200:
            return f"status {answer.status}"
        # A call that took long is answered by a stream; its last event is the answer.
        said = json.loads(data.rpartition(b"data: ")[2])
        right = said.get("id") == number and "hello, hello" in json.dumps(said.get("result", {}))
        return "" if right else "another answer"


class Soak:
    """One run."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self.found = Found()
        self._until = 0.0

    async def run(self) -> None:
        given = self._given
        room = ["--listeners", str(given.listeners + 1000), "--connections", str(given.listeners + 2000)]
        room += ["--workers", str(given.workers)]
        with tempfile.TemporaryDirectory() as name, hub("inline", Path(name), (), room) as running:
            servers = next(Path(name).rglob("bench.py")).parent
            change(servers, "told", 0)
            url = running.url.replace("/bench", "/told")
            await asyncio.sleep(3)
            crowd = Crowd(target(url, MODERN, LISTEN, "subscriptions/listen"), comes_back=True)
            await crowd.gather(given.listeners)
            self._until = time.monotonic() + 60 * given.minutes
            with Callers(target(running.url, MODERN), given.rate, self.found):
                await asyncio.gather(
                    self._change(crowd, servers), self._replace(crowd, running.pid), self._sample(crowd, running.pid)
                )
            crowd.comes_back = False
            os.kill(running.pid, signal.SIGTERM)
            await until(lambda: processes.is_over(running.pid), "the hub ends")

    def _goes_on(self) -> bool:
        return time.monotonic() < self._until

    async def _change(self, crowd: Crowd, servers: Path) -> None:
        number = 0
        waiting: set[asyncio.Task[None]] = set()
        while self._goes_on():
            number += 1
            moment = time.monotonic()
            change(servers, "told", number)
            self.found.changes += 1
            waiting.add(asyncio.create_task(self._told(crowd, moment)))
            await asyncio.sleep(max(0.0, self._given.change - (time.monotonic() - moment)))
        await asyncio.gather(*waiting)

    async def _told(self, crowd: Crowd, moment: float) -> None:
        """Wait until each that was there, and stays, is told of a change after this moment."""
        there = crowd.there_at(moment)
        while there and time.monotonic() < moment + TOLD_SECONDS:
            await asyncio.sleep(0.1)
            there = [one for one in there if one.last < moment and not one.ended]
        self.found.slowest = max(self.found.slowest, time.monotonic() - moment)
        self.found.lost += len(there)

    async def _replace(self, crowd: Crowd, pid: int) -> None:
        while self._goes_on():
            await asyncio.sleep(min(self._given.replace, max(0.0, self._until - time.monotonic())))
            if self._until - time.monotonic() > min(30.0, self._given.replace / 2):
                os.kill(pid, signal.SIGHUP)
                self.found.replaced += 1

    async def _sample(self, crowd: Crowd, pid: int) -> None:
        while self._goes_on():
            await asyncio.sleep(SAMPLE_SECONDS)
            there = len(crowd.there_at(time.monotonic()))
            if there == self._given.listeners:
                with suppress(OSError):  # a process has just ended
                    found = {"memory": processes.memory(pid) // 1024, "descriptors": self._descriptors(pid)}
                    self.found.samples.append({"second": round(time.monotonic() - self._until), **found})

    def _descriptors(self, pid: int) -> int:
        """How many descriptors the workers have open together."""
        total = 0
        for one in processes.below(pid) - processes.hosts(pid):
            total += sum(1 for _ in Path(f"/proc/{one}/fd").iterdir())
        return total


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; writes one JSON document. 1 when an answer was wrong or a change was lost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="Everything at once, for long.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument("--listeners", type=int, default=10_000, help="open streams (default: 10,000)")
    parser.add_argument("--rate", type=float, default=300.0, help="calls a second (default: 300)")
    parser.add_argument("--change", type=float, default=1.0, help="seconds between two changes (default: 1)")
    parser.add_argument("--replace", type=float, default=60.0, help="seconds between two SIGHUP (default: 60)")
    parser.add_argument("--workers", type=int, default=1, help="worker processes (default: 1)")
    given = parser.parse_args(arguments)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soak = Soak(given)
    asyncio.run(soak.run())
    found = soak.found
    shown = {**vars(found), "wrong": dict(found.wrong)}
    sys.stdout.write(json.dumps(shown) + "\n")
    return 1 if found.wrong or found.lost else 0


if __name__ == "__main__":
    sys.exit(main())
