"""Streamed calls: the time from a tool's yield to the client."""

from __future__ import annotations

import re
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from benchmarks.load import RequestTemplate, prepare_request

TIMEOUT_SECONDS = 30.0
"""Timeout of each network operation."""

PAUSE_SECONDS = 0.02
"""Seconds before and after the moment that is measured: the tool is at work, and the stream does not end with it."""

MOMENT = re.compile(rb'"message": ?"([0-9.]+)"')
TOKEN = {"_meta": {"progressToken": "bench"}}


@dataclass(frozen=True)
class Delay:
    """Milliseconds from a yield to the arrival of its first byte: half and 99% of the calls within so many."""

    p50: float
    p99: float


def measure_delay(url: str, conversation: str, calls: int) -> Delay:
    """Make streamed calls, one after the other; the tool yields the time of its yield."""
    request = prepare_request(url, conversation, {"name": "moment", "arguments": {"pause": PAUSE_SECONDS}, **TOKEN})
    with connect(request) as connection:
        found = [_seconds_to_arrival(connection, request, number) * 1e3 for number in range(1, calls + 1)]
    ranked = statistics.quantiles(found, n=100)
    return Delay(statistics.median(found), ranked[98])


def _seconds_to_arrival(connection: socket.socket, request: RequestTemplate, number: int) -> float:
    """Seconds from the yield of one call to the arrival of the first byte that holds it; reads to the end."""
    connection.sendall(request.encode(number))
    received, arrived, yielded = b"", 0.0, None
    while not received.endswith(b"0\r\n\r\n"):
        piece = connection.recv(65536)
        now = time.monotonic()
        if not piece:
            raise RuntimeError(f"{request.url} closed the connection: {received[-500:]!r}")
        received += piece
        if yielded is None and (yielded := MOMENT.search(received)):
            arrived = now
    if yielded is None:
        raise RuntimeError(f"{request.url} sent no time of its yield: {received[-500:]!r}")
    return arrived - float(yielded[1])


@contextmanager
def connect(request: RequestTemplate) -> Iterator[socket.socket]:
    """Connect to the server of a request."""
    parts = urlsplit(request.url)
    with socket.create_connection((parts.hostname or "", parts.port or 80), TIMEOUT_SECONDS) as connection:
        yield connection
