"""Connections of which a request takes a bounded time in all, however its endpoint divides what it sends.

The timeouts of an HTTP client count for each read, so an endpoint that sends a byte now and then would hold a sender.
Source: https://www.encode.io/httpcore/network-backends/ (the methods of a backend and of its streams).
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2

_end: ContextVar[float] = ContextVar("end")
"""When the request of this thread has to have ended, in seconds of the monotonic clock."""


@contextmanager
def ends_within(seconds: float) -> Iterator[None]:
    """Give what the block sends and reads some seconds in all. Beyond them, a step raises TimeoutError."""
    token = _end.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _end.reset(token)


def bound_requests(transport: httpx2.HTTPTransport) -> httpx2.HTTPTransport:
    """Bound the time of each request by its block of `ends_within`; return the transport, which is not used yet."""
    pool: Any = transport._pool
    pool._network_backend = _TimedBackend(pool._network_backend)
    return transport


def _left(timeout: float | None) -> float:
    """Return the seconds that one step may take. Raises TimeoutError."""
    left = _end.get() - time.monotonic()
    if left <= 0:
        raise TimeoutError("the time of the request is over")
    return left if timeout is None else min(timeout, left)


class _TimedStream:
    """One connection."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.close = inner.close
        self.get_extra_info = inner.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> Any:
        return self._inner.read(max_bytes, _left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left(timeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> _TimedStream:
        return _TimedStream(self._inner.start_tls(ssl_context, server_hostname, _left(timeout)))


class _TimedBackend:
    """Opens connections."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.sleep = inner.sleep

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _TimedStream:
        return _TimedStream(self._inner.connect_tcp(host, port, _left(timeout), **options))
