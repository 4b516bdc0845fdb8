"""Many open streams: what each takes, how quick the hub is beside them, how soon all are told, how soon all can end.

    .venv/bin/python -m benchmarks.listeners --streams 1000 10000

One hub for each number, on a processor of its own; all streams listen for changes of one server (2026-07-28).
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import resource
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import processes
from benchmarks.contenders import hub
from benchmarks.load import MODERN, Target, measure, target

BOUND = 120.0
"""Seconds that anything may take."""

BATCH = 200
"""Streams that are opened at once."""

TOLD = b"notifications/tools/list_changed"
LISTEN = {"notifications": {"toolsListChanged": True}}


class Listener(asyncio.Protocol):
    """One stream. `begun`, `last` and `ended` are monotonic times; `told` counts the changes that it was told of."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._tail = b""
        self.transport: asyncio.BaseTransport | None = None
        self.begun = self.last = self.ended = 0.0
        self.told = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._crowd.request)

    def data_received(self, data: bytes) -> None:
        if not self.begun:
            self._tail += data
            if b"acknowledged" in self._tail:
                self.begun, self._tail = time.monotonic(), b""
                self._crowd.begun += 1
            elif b"HTTP/1.1" in self._tail and b"HTTP/1.1 200" not in self._tail:
                self._crowd.refused += 1
            return
        # A notice may come in two pieces.
        seen = self._tail + data
        found = seen.count(TOLD)
        self._tail = seen[-len(TOLD) + 1 :] if found == 0 else seen[seen.rindex(TOLD) + len(TOLD) :][-len(TOLD) + 1 :]
        if found:
            self.told += found
            self.last = time.monotonic()

    def connection_lost(self, problem: Exception | None) -> None:
        self.ended = time.monotonic()
        self._crowd.left(self)


class Crowd:
    """So many listeners in this process. With `comes_back`, one whose stream ends opens another."""

    def __init__(self, aim: Target, comes_back: bool = False) -> None:
        parts = urlsplit(aim.url)
        self._address = (parts.hostname or "", parts.port or 80)
        self.request = aim.request(1)
        self.open: set[Listener] = set()
        self.begun = self.ended = self.refused = 0
        self.comes_back = comes_back
        self._coming: set[asyncio.Task[None]] = set()

    async def gather(self, streams: int) -> None:
        """Open so many streams; all have begun."""
        for start in range(0, streams, BATCH):
            await asyncio.gather(*(self._come() for _ in range(min(BATCH, streams - start))))
            wanted = min(start + BATCH, streams)
            await until(partial(self._has_begun, wanted), "streams begin")

    def _has_begun(self, wanted: int) -> bool:
        return self.begun >= wanted

    def left(self, listener: Listener) -> None:
        self.ended += 1
        self.open.discard(listener)
        if self.comes_back:
            task = asyncio.get_running_loop().create_task(self._return())
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    async def _come(self) -> None:
        _, listener = await asyncio.get_running_loop().create_connection(lambda: Listener(self), *self._address)
        self.open.add(listener)

    async def _return(self) -> None:
        """Open another stream, once the hub takes connections again."""
        while self.comes_back:
            try:
                await self._come()
            except OSError:
                await asyncio.sleep(0.2)
            else:
                return

    def heard_since(self, moment: float) -> int:
        """How many of those that were there at a moment were told of a change after it."""
        return sum(one.last >= moment for one in self.there_at(moment))

    def there_at(self, moment: float) -> list[Listener]:
        """Those that had begun by a moment and are still open."""
        return [one for one in self.open if 0 < one.begun <= moment]


async def until(condition: Callable[[], bool], what: str, bound: float = BOUND) -> float:
    """Wait for a condition; how many seconds that took. Raises RuntimeError after `bound` seconds."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > bound:
            raise RuntimeError(f"{what}: not within {bound:g} s")
        await asyncio.sleep(0.005)
    return time.monotonic() - begun


@dataclass(frozen=True)
class Cost:
    """What open streams cost. Times of pings are in milliseconds, `told` and `drained` in seconds, `each` in KiB.

    `told_cpu` is the processor time of the hub for each stream that is told of a change; `call` is that of a call
    without open streams, and `call_beside` that beside them; in microseconds. `rate` is in calls per second.
    """

    streams: int
    each: float
    ping_p50: float
    ping_p99: float
    told: float
    told_cpu: float
    drained: float
    rate: float
    rate_beside: float
    call: float
    call_beside: float

    @property
    def kept(self) -> float:
        """The part of the calls that is left beside them, for the same processor time."""
        return self.call / self.call_beside


def change(servers: Path, name: str, number: int) -> None:
    """Give a definition another tool."""
    draft = servers / f".{name}.draft"
    draft.write_text(f'def tool_{number}() -> str:\n    """A tool."""\n    return "{number}"\n', "utf-8")
    draft.replace(servers / f"{name}.py")


def pings(url: str, count: int, pause: float = 0.005) -> list[float]:
    """Milliseconds that each of some pings took."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=BOUND)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    never, found = threading.Event(), []
    for _ in range(count):
        begun = time.perf_counter()
        connection.request("POST", parts.path, body, headers)
        answer = connection.getresponse()
        if answer.status != 200 or b'"result"' not in answer.read():
            raise RuntimeError(f"{url} answered a ping with {answer.status}")
        found.append((time.perf_counter() - begun) * 1e3)
        never.wait(pause)
    connection.close()
    return found


async def cost(streams: int, seconds: float) -> Cost:
    """Measure one hub."""
    server, *_, load = sorted(os.sched_getaffinity(0)) * 2
    os.sched_setaffinity(0, {load})
    on_server, on_load = (["taskset", "--cpu-list", str(one)] for one in (server, load))
    room = ["--listeners", str(streams), "--connections", str(streams + 1000)]
    with tempfile.TemporaryDirectory() as name, hub("inline", Path(name), on_server, room) as found:
        calls = target(found.url, MODERN)
        servers = next(Path(name).rglob("bench.py")).parent
        change(servers, "told", 0)
        told_url = found.url.replace("/bench", "/told")
        await until(lambda: _is_served(told_url), "the server is found")
        measure(calls, 1.0, 16, on_load)
        rate, call = await asyncio.to_thread(_called, calls, seconds, on_load, found.pid)
        memory = processes.memory(found.pid)
        crowd = Crowd(target(told_url, MODERN, LISTEN, "subscriptions/listen"))
        await crowd.gather(streams)
        each = (processes.memory(found.pid) - memory) / 1024 / streams
        ranked = statistics.quantiles(await asyncio.to_thread(pings, found.url, 500), n=100)
        rate_beside, call_beside = await asyncio.to_thread(_called, calls, seconds, on_load, found.pid)
        told, cpu = await _told(crowd, servers, found.pid, streams)
        begun = time.monotonic()
        os.kill(found.pid, signal.SIGTERM)
        await until(lambda: crowd.ended >= streams and processes.is_over(found.pid), "every stream and the hub end")
        drained = time.monotonic() - begun
    return Cost(
        streams, each, ranked[49], ranked[98], told, cpu, drained, rate, rate_beside, call * 1e6, call_beside * 1e6
    )


def _called(aim: Target, seconds: float, prefix: Sequence[str], pid: int) -> tuple[float, float]:
    """Calls per second, and the processor time of the hub for each of them, in seconds."""
    before = processes.seconds(pid)
    rate = measure(aim, seconds, 16, prefix).rate
    return rate, (processes.seconds(pid) - before) / (rate * seconds)


async def _told(crowd: Crowd, servers: Path, pid: int, streams: int) -> tuple[float, float]:
    """Seconds from the first stream that is told of a change to the last, and processor time for each."""
    moment, before = time.monotonic(), processes.seconds(pid)
    change(servers, "told", 1)
    await until(lambda: crowd.heard_since(moment) > 0, "a stream is told of the change")
    first = min(one.last for one in crowd.open if one.last >= moment)
    await until(lambda: crowd.heard_since(moment) == streams, "every stream is told of the change")
    last = max(one.last for one in crowd.open)
    return last - first, (processes.seconds(pid) - before) / streams * 1e6


def _is_served(url: str) -> bool:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=BOUND)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", parts.path, '{"jsonrpc":"2.0","id":1,"method":"tools/list"}', headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status == 200


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; writes one line of JSON for each number of streams."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.listeners", description="Measure many open streams.")
    parser.add_argument("--streams", type=int, nargs="+", default=[1000, 10_000], help="how many are open")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each measurement of calls lasts")
    given = parser.parse_args(arguments)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for streams in given.streams:
        found = asyncio.run(cost(streams, given.seconds))
        sys.stdout.write(json.dumps({**asdict(found), "kept": found.kept}) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
