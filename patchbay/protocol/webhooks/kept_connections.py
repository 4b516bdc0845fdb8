"""Connections to the endpoints of webhooks that stay open between two events.

Each destination (a host and a port) has connections of its own. A connection was verified for one host name, so no
other host at the same address may use it. Kept connections are bounded in number and time.
Source: RFC 9112 section 9.3 (persistence), section 9.3.1 (a connection that closes before the answer).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

KEPT_SECONDS = 50.0
"""Seconds for which an unused connection stays open; many servers close theirs after 60."""

MAX_DESTINATIONS = 64
"""Destinations whose connections are kept."""

MAX_KEPT_OF_DESTINATION = 4
"""Unused connections that are kept to one destination."""


@dataclass(slots=True)
class Destination:
    """The connections to one host and port. `address` is where its last request went, "" if it had no answer."""

    client: httpx2.Client
    address: str = ""
    users: int = field(default=0, repr=False)
    used_at: float = field(default=0.0, repr=False)


class KeptConnections:
    """Connections by destination; safe to use from many threads. `open_client` returns a client without connections."""

    def __init__(self, open_client: Callable[[], httpx2.Client]) -> None:
        self._open_client = open_client
        self._destinations: OrderedDict[tuple[str, int], Destination] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def use(self, host: str, port: int) -> Iterator[Destination]:
        """Lend the connections to a destination: they stay open at least until the end of the block."""
        with self._lock:
            one = self._destinations.pop((host, port), None) or Destination(self._open_client())
            self._destinations[host, port] = one
            one.users += 1
        try:
            yield one
        finally:
            with self._lock:
                one.users -= 1
                one.used_at = time.monotonic()
                surplus = self._take_surplus()
            _close(surplus)

    def close_unused(self) -> None:
        """Close the connections that nothing used for KEPT_SECONDS."""
        end = time.monotonic() - KEPT_SECONDS
        with self._lock:
            unused = self._take(lambda one: one.used_at <= end)
        _close(unused)

    def close(self) -> None:
        """Close all connections that are not in use."""
        with self._lock:
            unused = self._take(lambda one: True)
        _close(unused)

    def _take_surplus(self) -> list[Destination]:
        """Requires the lock. Remove and return the destinations above the limit, the least recently used first."""
        surplus = len(self._destinations) - MAX_DESTINATIONS
        return self._take(lambda one: True, surplus) if surplus > 0 else []

    def _take(self, is_meant: Callable[[Destination], bool], limit: int | None = None) -> list[Destination]:
        """Requires the lock. Remove and return at most `limit` destinations that are not in use."""
        keys = [key for key, one in self._destinations.items() if not one.users and is_meant(one)][:limit]
        return [self._destinations.pop(key) for key in keys]


def _close(destinations: list[Destination]) -> None:
    for one in destinations:
        one.client.close()
