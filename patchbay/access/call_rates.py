"""Counts the calls of the last minute by key, and spaces calls that come faster than the minute allows.

The minute is a moving window of exact times: it has no edge at which a caller could double its rate, and the number of
seconds until the next call is exact. Within it, calls have a pace: after `CALLS_AT_ONCE` calls each further one begins
a fixed time after the one before (the generic cell rate algorithm), so that a caller cannot spend its minute in one
burst, which would slow down all other callers meanwhile.

A call costs the same at every limit: the times of a key are in a queue, where old ones leave at one end.
Source: ITU-T I.371, annex A (generic cell rate algorithm).
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

WINDOW_SECONDS = 60.0

CALLS_AT_ONCE = 10
"""Calls that may begin at once, as far as the minute has them."""

PACE_SECONDS = 60.0
"""A caller that calls without a pause spends its calls of a minute in so many seconds."""

MAX_DELAY_SECONDS = 1.0
"""Limit on the wait of a call for its turn; a call that would wait longer is refused."""

MAX_EXACT_LIMIT = 10_000
"""Limits above this one have a pace only, and no times of calls in memory: a minute may have `CALLS_AT_ONCE` more."""

SWEEP_CALLS = 10_000
"""Number of counted calls after which keys without a call in the last minute are removed."""


class _Calls:
    """The calls of one key: when they began within the last minute, and the earliest begin of the next ones."""

    __slots__ = ("begun", "due")

    def __init__(self) -> None:
        self.begun: deque[float] = deque()
        self.due = 0.0

    def seconds_until_turn(self, limit: int, now: float) -> float:
        """Return the seconds until the next call may begin: 0 or more."""
        begun = self.begun
        while begun and begun[0] <= now - WINDOW_SECONDS:
            begun.popleft()
        pace = self.due - now - (CALLS_AT_ONCE - 1) * PACE_SECONDS / limit
        minute = begun[-limit] + WINDOW_SECONDS - now if len(begun) >= limit else 0.0
        if pace > minute:
            return pace
        return minute if minute > 0.0 else 0.0

    def count(self, limit: int, now: float, delay: float) -> None:
        """Count a call that begins after a delay."""
        if limit <= MAX_EXACT_LIMIT:
            self.begun.append(now + delay)
        self.due = (self.due if self.due > now else now) + PACE_SECONDS / limit


class CallRates:
    """The calls of the last minute. Safe to use from many threads. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._calls: dict[str, _Calls] = {}
        self._lock = threading.Lock()
        self._counted = 0

    def count(self, limits: Sequence[tuple[str, int]]) -> float | str:
        """Count a call of some keys, each with its limit for a minute.

        Return the seconds after which the call may begin (0: at once); or the key that refuses it, and then no key
        counts the call.
        """
        now = self._clock()
        with self._lock:
            delay = 0.0
            for key, limit in limits:
                calls = self._calls.get(key)
                if calls is None:
                    calls = self._calls[key] = _Calls()
                wait = calls.seconds_until_turn(limit, now)
                if wait > delay:
                    if wait > MAX_DELAY_SECONDS:
                        return key
                    delay = wait
            for key, limit in limits:
                self._calls[key].count(limit, now, delay)
            self._counted += 1
            if self._counted >= SWEEP_CALLS:
                self._sweep(now)
            return delay

    def has_room(self, key: str, limit: int) -> bool:
        """Whether a key may begin a call, perhaps after a short wait. Counts nothing."""
        with self._lock:
            return self._seconds_until_turn(key, limit, self._clock()) <= MAX_DELAY_SECONDS

    def seconds_until_room(self, key: str, limit: int) -> int:
        """Return the whole seconds until a key may begin a call, at least 1."""
        with self._lock:
            return max(1, math.ceil(self._seconds_until_turn(key, limit, self._clock())))

    def _seconds_until_turn(self, key: str, limit: int, now: float) -> float:
        """Return the seconds until the next call of a key may begin. The caller holds the lock."""
        calls = self._calls.get(key)
        return calls.seconds_until_turn(limit, now) if calls is not None else 0.0

    def _sweep(self, now: float) -> None:
        self._counted = 0
        oldest = now - WINDOW_SECONDS
        self._calls = {key: calls for key, calls in self._calls.items() if calls.due > oldest}
