"""Rates: tokens that come at a rate, up to a limit, the times of what happened lately, and requests by address.

Source of the tokens: ITU-T I.371, annex A (the continuous-state leaky bucket, which is the same algorithm).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

MAX_TRACKED_ADDRESSES = 4096


class TokenBucket:
    """Tokens that come `per_second`, at most `limit`; it is full at the time `at`. For one thread at a time.

    `tokens` are those of the last `refill`. They may be below zero, where something was done before there were enough.
    Times are in seconds, of one clock.
    """

    __slots__ = ("_at", "limit", "per_second", "tokens")

    def __init__(self, per_second: float, limit: float, at: float) -> None:
        self.per_second = per_second
        self.limit = self.tokens = limit
        self._at = at

    def refill(self, now: float) -> float:
        """Add the tokens that came since the last time; return all."""
        self.tokens = tokens = min(self.limit, self.tokens + (now - self._at) * self.per_second)
        self._at = now
        return tokens

    def take(self, tokens: float, now: float) -> bool:
        """Take tokens if there are so many; return whether there were."""
        if self.refill(now) < tokens:
            return False
        self.tokens -= tokens
        return True

    def seconds_until(self, tokens: float) -> float:
        """Return how long after the last `refill` there are so many tokens; 0 or less if there are."""
        return (tokens - self.tokens) / self.per_second


class RecentTimes(deque[float]):
    """Times of one clock in seconds, the oldest first; `append` adds one. For one thread at a time."""

    __slots__ = ()

    def forget_until(self, oldest: float) -> None:
        """Forget the times that are not after `oldest`. The cost is that of the forgotten ones."""
        while self and self[0] <= oldest:
            self.popleft()


class AddressCounter:
    """Counts requests by address in windows of `seconds`. Safe to use from many threads."""

    def __init__(self, max_requests: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_requests, self._seconds, self._clock = max_requests, seconds, clock
        self._lock = threading.Lock()
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def allows(self, address: str) -> bool:
        """Count one request; return whether its address has sent no more than `max_requests` in this window."""
        now = self._clock()
        with self._lock:
            begun, count = self._windows.get(address, (now, 0))
            if now - begun >= self._seconds:
                begun, count = now, 0
            self._windows[address] = (begun, count + 1)
            self._windows.move_to_end(address)
            while len(self._windows) > MAX_TRACKED_ADDRESSES:
                self._windows.popitem(last=False)
        return count < self._max_requests
