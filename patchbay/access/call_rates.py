"""Counts the calls of the last minute by key: the moving window of the library `limits`, in the memory of a worker.

A moving window has no edge at which a caller could double its rate. Its entries are times, so that the number of
seconds until the next call is exact.
"""

from __future__ import annotations

import math
import time
from functools import lru_cache

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

_per_minute = lru_cache(maxsize=256)(RateLimitItemPerMinute)


class CallRates:
    """The calls of the last minute. Safe to use from many threads."""

    def __init__(self) -> None:
        self._window = MovingWindowRateLimiter(MemoryStorage())

    def has_room(self, key: str, limit: int) -> bool:
        """Whether a key has fewer than `limit` calls in the last minute."""
        return self._window.test(_per_minute(limit), key)

    def count(self, key: str, limit: int) -> bool:
        """Count a call of a key; return False, and count nothing, when it has `limit` calls already."""
        return self._window.hit(_per_minute(limit), key)

    def seconds_until_room(self, key: str, limit: int) -> int:
        """Return the whole seconds until the oldest call of a key is a minute old, at least 1."""
        reset = self._window.get_window_stats(_per_minute(limit), key).reset_time
        return max(1, math.ceil(reset - time.time()))
