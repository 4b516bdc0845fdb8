"""The events of one mount, and how often they may cause a reading of its lists."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from patchbay.limits import TokenBucket

MAX_EVENTS = 4096
"""Events that wait, at most; those without a subject always find a place."""

REFRESH_PAUSE_SECONDS = 0.1
"""Seconds between two readings of the lists."""

REFRESH_BURST, REFRESH_INTERVAL_SECONDS = 30, 5.0
"""An upstream that announces changes without pause has its lists read this often at once, and then once in this many
seconds.
"""


class EventQueue:
    """A bounded queue of events, each event once, in order. For many writers and one reader."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], None] = {}
        self._changed = threading.Condition()

    def put(self, what: str, about: str = "") -> None:
        """Add an event without waiting. An update of a resource is dropped when the queue is full."""
        with self._changed:
            if len(self._waiting) < MAX_EVENTS or not about:
                self._waiting[what, about] = None
                self._changed.notify()

    def get_all(self, seconds: float) -> list[tuple[str, str]]:
        """Return all events, after waiting up to this many seconds for the first."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting, seconds)
            taken, self._waiting = list(self._waiting), {}
        return taken


class RefreshBudget:
    """Limits how often the lists of one upstream are read. For one thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._bucket = TokenBucket(1 / REFRESH_INTERVAL_SECONDS, REFRESH_BURST, now())

    def spend(self) -> float:
        """Count one reading; return the seconds until the next one may begin."""
        bucket = self._bucket
        bucket.refill(self._now())
        bucket.tokens -= 1
        return max(REFRESH_PAUSE_SECONDS, bucket.seconds_until(1))
