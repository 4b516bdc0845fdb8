"""Limits the requests that run at once, so that one address cannot take every thread, and health checks always work.

There are EXTRA_THREADS more threads for requests than the setting `threads`: they never run long requests, so that
`/healthz`, `/readyz` and refusals are answered while all others are busy. When few threads are free, an address that
holds more than half of the used ones gets no more. A request without a thread waits for a short time, then it gets a
503. No lock is taken while threads are free.
Source: CWE-400 (uncontrolled resource consumption).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from patchbay.errors import PatchbayError
from patchbay.jsonrpc import failure
from patchbay.wire.replies.reply import Reply, json_reply

EXTRA_THREADS = 32
"""Threads of each worker in addition to the setting `threads`."""

MAX_WAITING = 24
"""Limit on the requests that wait for a thread; the other extra threads answer health checks."""

MAX_FREE = 64
"""Threads reserved for other addresses than the one with the most; at most a quarter of all threads."""

PATIENCE_SECONDS = 1.0
STUCK_SECONDS = 0.1
"""Limit on the wait of a request for a thread; after this time without an ended request the threads count as stuck."""

HEALTH = frozenset({"/healthz", "/readyz"})


class TooManyRequests(PatchbayError):
    """All threads for an address are busy."""

    status = 503

    def __init__(self) -> None:
        super().__init__("too many requests are running; try again later (setting threads)")


class NoDescriptors(PatchbayError):
    """The worker can open no file and no connection."""

    status = 503

    def __init__(self) -> None:
        super().__init__("the hub has no free connections or files; try again later")


class RequestPlace:
    """The place of one request of an address among those that hold a thread."""

    __slots__ = ("_address", "_limits")

    def __init__(self, limits: WorkLimits, address: str) -> None:
        self._limits = limits
        self._address = address

    def release(self) -> None:
        """Give back the place; a second time does nothing."""
        self._limits.leave(self)

    def rest(self) -> None:
        """Leave the place, because the answer waits without a thread."""
        self._limits.leave(self)

    def go_on(self) -> None:
        """Take the place again."""
        self._limits.take(self, self._address)


class WorkLimits:
    """Limits requests to `threads` at once, and to none while `is_short()`. Health checks always pass (`HEALTH`).

    A streamed answer counts until its end, except while it waits on the event loop.
    """

    def __init__(self, threads: int, is_short: Callable[[], bool] = lambda: False) -> None:
        self._is_short = is_short
        self._threads = threads
        self._crowded = threads - min(MAX_FREE, threads // 4)
        self._working: dict[RequestPlace, str] = {}
        self._ended = 0.0
        self._waiting = 0
        self._changed = threading.Condition()

    def enter(self, address: str) -> RequestPlace | Reply:
        """Return the place of a request of this address, after a short wait if needed, or its refusal."""
        if self._is_short():
            return json_reply(failure(None, NoDescriptors()), NoDescriptors.status)
        if len(self._working) >= self._crowded and not self._wait_for_place(address):
            return json_reply(failure(None, TooManyRequests()), TooManyRequests.status)
        place = RequestPlace(self, address)
        self._working[place] = address
        return place

    def leave(self, place: RequestPlace) -> None:
        """Give back the place of a request; a second time does nothing."""
        if self._working.pop(place, None) is None:
            return
        self._ended = time.monotonic()
        if self._waiting:
            with self._changed:
                self._changed.notify_all()

    def take(self, place: RequestPlace, address: str) -> None:
        """Count a place of an address."""
        self._working[place] = address

    def _wait_for_place(self, address: str) -> bool:
        """Whether a request of this address gets a thread, after a short wait if needed."""
        if self._has_place(address):
            return True
        begun = time.monotonic()
        with self._changed:
            if self._waiting >= MAX_WAITING and begun - self._ended > STUCK_SECONDS:
                return False
            self._waiting += 1
            try:
                return self._changed.wait_for(lambda: self._has_place(address), PATIENCE_SECONDS)
            finally:
                self._waiting -= 1

    def _has_place(self, address: str) -> bool:
        busy = [*self._working.values()]
        if len(busy) < self._crowded:
            return True
        return len(busy) < self._threads and 2 * busy.count(address) <= len(busy)
