"""Streams: the time from a tool's yield to the client, and the cost of many open streams for other calls."""

from __future__ import annotations

import re
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from benchmarks.load import MODERN, Target, target

BOUND = 30.0
"""Seconds that anything may take."""

PAUSE = 0.02
"""Seconds before and after the moment that is measured: the tool is at work, and the stream does not end with it."""

MOMENT = re.compile(rb'"message": ?"([0-9.]+)"')
TOKEN = {"_meta": {"progressToken": "bench"}}
LISTEN = {"notifications": {"toolsListChanged": True}}


@dataclass(frozen=True)
class Delay:
    """Milliseconds from a yield to the arrival of its first byte: half and 99% of the calls within so many."""

    p50: float
    p99: float


@dataclass(frozen=True)
class Cost:
    """Calls per second `without` open streams and `beside` so many, and the KiB of memory that `each` takes."""

    streams: int
    without: float
    beside: float
    each: float

    @property
    def kept(self) -> float:
        """The part of the rate that is left."""
        return self.beside / self.without


def delay(url: str, revision: str, calls: int) -> Delay:
    """Make streamed calls, one after the other, each of which says at what time it said so."""
    wanted = target(url, revision, {"name": "moment", "arguments": {"pause": PAUSE}, **TOKEN})
    with connected(wanted) as connection:
        found = [_arrival(connection, wanted, number) * 1e3 for number in range(1, calls + 1)]
    ranked = statistics.quantiles(found, n=100)
    return Delay(statistics.median(found), ranked[98])


def _arrival(connection: socket.socket, wanted: Target, number: int) -> float:
    """Seconds from the yield of one call to the arrival of the first byte that holds it; reads to the end."""
    connection.sendall(wanted.request(number))
    received, arrived, said = b"", 0.0, None
    while not received.endswith(b"0\r\n\r\n"):
        piece = connection.recv(65536)
        now = time.monotonic()
        if not piece:
            raise RuntimeError(f"{wanted.url} closed the connection: {received[-500:]!r}")
        received += piece
        if said is None and (said := MOMENT.search(received)):
            arrived = now
    if said is None:
        raise RuntimeError(f"{wanted.url} did not say when it yielded: {received[-500:]!r}")
    return arrived - float(said[1])


@contextmanager
def connected(wanted: Target) -> Iterator[socket.socket]:
    """A connection to where requests are to go."""
    parts = urlsplit(wanted.url)
    with socket.create_connection((parts.hostname or "", parts.port or 80), BOUND) as connection:
        yield connection


@contextmanager
def listening(url: str, streams: int) -> Iterator[None]:
    """So many open streams that listen for changes; all have begun."""
    wanted = target(url, MODERN, LISTEN, "subscriptions/listen")
    with ExitStack() as opened:
        connections = [opened.enter_context(connected(wanted)) for _ in range(streams)]
        for number, connection in enumerate(connections):
            connection.sendall(wanted.request(number))
        for connection in connections:
            begun = connection.recv(65536)
            if not begun.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(f"{url} does not let {streams} listen: {begun[:500]!r}")
        yield
