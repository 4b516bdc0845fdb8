"""Counts the calls of the last minute by key: the moving window of the library `limits`, in the memory of a worker.

A moving window has no edge at which a caller could double its rate. Its entries are times, so that the number of
seconds until the next call is exact. A second window of one second keeps a caller from spending its minute at once,
which would slow down all others meanwhile.
"""

from __future__ import annotations

import math
import time
from functools import lru_cache

from limits import RateLimitItem, RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

SECONDS_OF_CALLS = 30
"""A caller may spend its calls of a minute in so many seconds, not faster."""

MIN_CALLS_PER_SECOND = 20
"""Calls in one second that are always possible, as far as the minute has them."""


class CallRates:
    """The calls of the last minute. Safe to use from many threads."""

    def __init__(self) -> None:
        self._window = MovingWindowRateLimiter(MemoryStorage())

    def has_room(self, key: str, limit: int) -> bool:
        """Whether a key may begin a call: it has fewer than `limit` in the last minute, and no burst of them."""
        return all(self._window.test(item, key) for item in _items(limit))

    def count(self, key: str, limit: int) -> bool:
        """Count a call of a key; return False when it may not begin one."""
        return all(self._window.hit(item, key) for item in _items(limit))

    def seconds_until_room(self, key: str, limit: int) -> int:
        """Return the whole seconds until a key may begin a call, at least 1."""
        full = [item for item in _items(limit) if not self._window.test(item, key)]
        reset = max((self._window.get_window_stats(item, key).reset_time for item in full), default=0.0)
        return max(1, math.ceil(reset - time.time()))


@lru_cache(maxsize=256)
def _items(limit: int) -> tuple[RateLimitItem, ...]:
    """Return the windows of a limit: a second where a burst is limited, and the minute."""
    burst = max(MIN_CALLS_PER_SECOND, limit // SECONDS_OF_CALLS)
    minute = RateLimitItemPerMinute(limit)
    return (RateLimitItemPerSecond(burst), minute) if burst < limit else (minute,)
