"""Measures many open streams: memory, calls beside them, the delay of a notification, and the end of the hub.

    .venv/bin/python -m benchmarks.listeners --streams 1000 10000

It starts one hub for each number of streams, on a processor of its own. All streams listen for changes of one server
(`subscriptions/listen` of 2026-07-28).
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
from benchmarks.contenders import run_hub
from benchmarks.load import MODERN, RequestTemplate, measure_load, prepare_request

MAX_WAIT_SECONDS = 120.0
"""The longest time for each step."""

BATCH = 200
"""Streams that are opened at once."""

RECONNECT_SECONDS = 0.2
"""Time between two attempts to open a stream while the hub accepts no connections."""

LOAD_CONNECTIONS = 16
CHANGING_SERVER = "changing"
"""Name of the server whose definition changes."""

NOTIFICATION = b"notifications/tools/list_changed"
LISTEN_PARAMS = {"notifications": {"toolsListChanged": True}}


class Listener(asyncio.Protocol):
    """One stream of `subscriptions/listen`.

    `opened_at`, `notified_at` (the newest notification) and `closed_at` are monotonic times in seconds; 0 before.
    """

    def __init__(self, pool: ListenerPool) -> None:
        self._pool = pool
        self._tail = b""
        self.transport: asyncio.BaseTransport | None = None
        self.opened_at = self.notified_at = self.closed_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._pool.request)

    def data_received(self, data: bytes) -> None:
        if not self.opened_at:
            self._read_acknowledgement(data)
            return
        # A notification may arrive in two pieces, so the end of the data before is searched with the next piece.
        received = self._tail + data
        _, found, rest = received.rpartition(NOTIFICATION)
        self._tail = rest[-len(NOTIFICATION) + 1 :]
        if found:
            self.notified_at = time.monotonic()

    def _read_acknowledgement(self, data: bytes) -> None:
        self._tail += data
        if b"acknowledged" in self._tail:
            self.opened_at, self._tail = time.monotonic(), b""
            self._pool.opened_count += 1

    def connection_lost(self, problem: Exception | None) -> None:
        self.closed_at = time.monotonic()
        self._pool.remove(self)


class ListenerPool:
    """The open streams of this process. With `reconnects`, the pool opens another stream when one is closed."""

    def __init__(self, request: RequestTemplate, reconnects: bool = False) -> None:
        parts = urlsplit(request.url)
        self._address = (parts.hostname or "", parts.port or 80)
        self.request = request.encode(1)
        self.listeners: set[Listener] = set()
        self.opened_count = self.closed_count = 0
        self.reconnects = reconnects
        self._reconnections: set[asyncio.Task[None]] = set()

    async def open_streams(self, count: int) -> None:
        """Open streams and wait until the hub has acknowledged each. Raises RuntimeError when that takes too long."""
        for start in range(0, count, BATCH):
            await asyncio.gather(*(self._connect() for _ in range(min(BATCH, count - start))))
            await until(partial(self._has_opened, min(start + BATCH, count)), "the hub acknowledges the streams")

    def remove(self, listener: Listener) -> None:
        """Remove a stream that is closed."""
        self.closed_count += 1
        self.listeners.discard(listener)
        if self.reconnects:
            task = asyncio.get_running_loop().create_task(self._reconnect())
            self._reconnections.add(task)
            task.add_done_callback(self._reconnections.discard)

    def opened_before(self, time: float) -> list[Listener]:
        """Return the open streams that the hub had acknowledged at a monotonic time."""
        return [listener for listener in self.listeners if 0 < listener.opened_at <= time]

    def count_notified_since(self, time: float) -> int:
        """Count the streams that were open at a monotonic time and have received a notification since."""
        return sum(listener.notified_at >= time for listener in self.opened_before(time))

    def _has_opened(self, count: int) -> bool:
        return self.opened_count >= count

    async def _connect(self) -> None:
        _, listener = await asyncio.get_running_loop().create_connection(lambda: Listener(self), *self._address)
        self.listeners.add(listener)

    async def _reconnect(self) -> None:
        """Open a stream as soon as the hub accepts connections."""
        while self.reconnects:
            try:
                await self._connect()
            except OSError:
                await asyncio.sleep(RECONNECT_SECONDS)
            else:
                return


async def until(condition: Callable[[], bool], expected: str) -> None:
    """Wait for a condition. Raises RuntimeError after MAX_WAIT_SECONDS."""
    end = time.monotonic() + MAX_WAIT_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"expected within {MAX_WAIT_SECONDS:g} s: {expected}")
        await asyncio.sleep(0.005)


@dataclass(frozen=True)
class StreamCost:
    """What open streams cost. The unit stands in the name of each figure.

    `stream_kib` is the memory of one stream. `notified_seconds` is the time from the first notified stream to the last,
    `notified_cpu_us` the hub's processor time for each. `shutdown_seconds` is the time from SIGTERM to the end of the
    hub. `rate` is in calls per second; it and `call_cpu_us` are measured without and with the open streams.
    """

    streams: int
    stream_kib: float
    ping_p50_ms: float
    ping_p99_ms: float
    notified_seconds: float
    notified_cpu_us: float
    shutdown_seconds: float
    rate: float
    rate_with_streams: float
    call_cpu_us: float
    call_cpu_us_with_streams: float


def write_definition(servers: Path, number: int) -> None:
    """Write a new version of the changing server: its tool has another name."""
    draft = servers / f".{CHANGING_SERVER}.draft"
    draft.write_text(f'def tool_{number}() -> str:\n    """A tool."""\n    return "{number}"\n', "utf-8")
    draft.replace(servers / f"{CHANGING_SERVER}.py")


def changing_url(url: str) -> str:
    """Return the address of the changing server from that of the server `bench`."""
    return url.removesuffix("bench") + CHANGING_SERVER


def prepare_listen(url: str) -> RequestTemplate:
    """Return the request that opens a stream."""
    return prepare_request(url, MODERN, LISTEN_PARAMS, "subscriptions/listen")


def measure_pings(url: str, count: int, pause_seconds: float = 0.005) -> list[float]:
    """Send pings with a pause after each; return the milliseconds of each. Raises RuntimeError."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=MAX_WAIT_SECONDS)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    never, delays = threading.Event(), []
    for _ in range(count):
        started = time.perf_counter()
        connection.request("POST", parts.path, body, headers)
        response = connection.getresponse()
        if response.status != 200 or b'"result"' not in response.read():
            raise RuntimeError(f"{url} answered a ping with {response.status}")
        delays.append((time.perf_counter() - started) * 1e3)
        never.wait(pause_seconds)
    connection.close()
    return delays


async def measure_streams(streams: int, seconds: float) -> StreamCost:
    """Measure one hub; each measurement of calls lasts so many seconds."""
    server, *_, load = sorted(os.sched_getaffinity(0)) * 2
    os.sched_setaffinity(0, {load})
    server_prefix, load_prefix = (["taskset", "--cpu-list", str(processor)] for processor in (server, load))
    limits = ["--listeners", str(streams), "--connections", str(streams + 1000)]
    with tempfile.TemporaryDirectory() as name, run_hub("inline", Path(name), server_prefix, limits) as hub:
        call = prepare_request(hub.url, MODERN)
        servers = next(Path(name).rglob("bench.py")).parent
        write_definition(servers, 0)
        listen_url = changing_url(hub.url)
        await until(lambda: _is_served(listen_url), "the hub serves the new definition")
        measure_load(call, 1.0, LOAD_CONNECTIONS, load_prefix)
        rate, call_cpu = await asyncio.to_thread(_measure_calls, call, seconds, load_prefix, hub.pid)
        memory_before = processes.memory_bytes(hub.pid)
        pool = ListenerPool(prepare_listen(listen_url))
        await pool.open_streams(streams)
        stream_kib = (processes.memory_bytes(hub.pid) - memory_before) / 1024 / streams
        pings = statistics.quantiles(await asyncio.to_thread(measure_pings, hub.url, 500), n=100)
        loaded_rate, loaded_cpu = await asyncio.to_thread(_measure_calls, call, seconds, load_prefix, hub.pid)
        notified_seconds, notified_cpu = await _measure_notification(pool, servers, hub.pid, streams)
        started = time.monotonic()
        os.kill(hub.pid, signal.SIGTERM)
        await until(
            lambda: pool.closed_count >= streams and processes.has_ended(hub.pid), "every stream and the hub end"
        )
        shutdown_seconds = time.monotonic() - started
    return StreamCost(
        streams=streams,
        stream_kib=stream_kib,
        ping_p50_ms=pings[49],
        ping_p99_ms=pings[98],
        notified_seconds=notified_seconds,
        notified_cpu_us=notified_cpu * 1e6,
        shutdown_seconds=shutdown_seconds,
        rate=rate,
        rate_with_streams=loaded_rate,
        call_cpu_us=call_cpu * 1e6,
        call_cpu_us_with_streams=loaded_cpu * 1e6,
    )


def _measure_calls(request: RequestTemplate, seconds: float, prefix: Sequence[str], pid: int) -> tuple[float, float]:
    """Return calls per second, and the hub's processor seconds for each call."""
    before = processes.cpu_seconds(pid)
    rate = measure_load(request, seconds, LOAD_CONNECTIONS, prefix).rate
    return rate, (processes.cpu_seconds(pid) - before) / (rate * seconds)


async def _measure_notification(pool: ListenerPool, servers: Path, pid: int, streams: int) -> tuple[float, float]:
    """Change the definition; return seconds from first to last notified stream, and processor seconds of each."""
    started, before = time.monotonic(), processes.cpu_seconds(pid)
    write_definition(servers, 1)
    await until(lambda: pool.count_notified_since(started) > 0, "a stream receives the notification")
    first = min(listener.notified_at for listener in pool.listeners if listener.notified_at >= started)
    await until(lambda: pool.count_notified_since(started) == streams, "every stream receives the notification")
    last = max(listener.notified_at for listener in pool.listeners)
    return last - first, (processes.cpu_seconds(pid) - before) / streams


def _is_served(url: str) -> bool:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=MAX_WAIT_SECONDS)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", parts.path, '{"jsonrpc":"2.0","id":1,"method":"tools/list"}', headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status == 200


def raise_file_limit() -> None:
    """Let this process, and those that it starts, open as many files as the system allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; write one line of JSON for each number of streams."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.listeners", description="Measure many open streams.")
    parser.add_argument("--streams", type=int, nargs="+", default=[1000, 10_000], help="numbers of open streams")
    parser.add_argument("--seconds", type=float, default=6.0, help="duration of each measurement of calls")
    options = parser.parse_args(arguments)
    raise_file_limit()
    for streams in options.streams:
        sys.stdout.write(json.dumps(asdict(asyncio.run(measure_streams(streams, options.seconds)))) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
