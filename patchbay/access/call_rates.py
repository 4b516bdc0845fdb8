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
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from patchbay.limits import RecentTimes

WINDOW_SECONDS = 60.0

CALLS_AT_ONCE = 10
"""Calls that may begin at once, as far as the minute has them."""

PACE_SECONDS = 60.0
"""A caller that calls without a pause spends its calls of a minute in so many seconds."""

MAX_DELAY_SECONDS = 1.0
"""Limit on the wait of a call for its turn; a call that would wait longer is refused."""

MAX_EXACT_LIMIT = 10_000
"""Limits above this one have a pace only, and no times of calls in memory: a minute may have `CALLS_AT_ONCE` more."""

MIN_BURST_SECONDS = 0.05
"""Where the pace is so fast that it allows more than `CALLS_AT_ONCE` calls in this time, these may begin at once: a
thread cannot wait for some microseconds.
"""


class CallTimes:
    """The calls of one key: when they began within the last minute, and the earliest begin of the next ones."""

    __slots__ = ("begun", "due")

    def __init__(self) -> None:
        self.begun = RecentTimes()
        self.due = 0.0

    def seconds_until_turn(self, limit: int, now: float) -> float:
        """Return the seconds until the next call may begin: 0 or more."""
        begun, wait = self.begun, self.due - now - burst_seconds(limit)
        if begun:  # empty where the limit has a pace only
            if begun[0] <= now - WINDOW_SECONDS:
                begun.forget_until(now - WINDOW_SECONDS)
            if len(begun) >= limit:
                wait = max(wait, begun[-limit] + WINDOW_SECONDS - now)
        return wait if wait > 0.0 else 0.0


class RateLimit(NamedTuple):
    """The limit of a key for a minute, prepared for `CallRates.count`: what the limit allows at once and its pace, both
    in seconds.
    """

    key: str
    times: CallTimes
    limit: int
    burst: float
    pace: float


def burst_seconds(limit: int) -> float:
    """Return by how many seconds a call may begin before its turn, for a limit in a minute."""
    return max((CALLS_AT_ONCE - 1) * PACE_SECONDS / limit, MIN_BURST_SECONDS)


class CallRates:
    """The calls of the last minute. For one thread at a time. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: dict[str, CallTimes] = {}

    def make_limit(self, key: str, limit: int) -> RateLimit:
        """Return a limit for `count`. It is for use until `forget_idle_keys`."""
        times = self._times.setdefault(key, CallTimes())
        return RateLimit(key, times, limit, burst_seconds(limit), PACE_SECONDS / limit)

    def count(self, limits: Sequence[RateLimit]) -> float | str:
        """Count a call of some keys.

        Return the seconds after which the call may begin (0: at once); or the key that refuses it, and then no key
        counts the call.
        """
        # Every call of a shared hub comes here: most calls wait for nothing, and that is seen without a further call.
        now, delay = self._clock(), 0.0
        for key, times, limit, burst, _ in limits:
            if times.begun or times.due - now > burst:
                wait = times.seconds_until_turn(limit, now)
                if wait > delay:
                    if wait > MAX_DELAY_SECONDS:
                        return key
                    delay = wait
        for _, times, limit, _, pace in limits:
            if limit <= MAX_EXACT_LIMIT:
                times.begun.append(now + delay)
            due = times.due
            times.due = (due if due > now else now) + pace
        return delay

    def in_last_minute(self) -> list[tuple[str, int]]:
        """Return how many calls of each key began in the last minute; 0 for one whose limit has a pace only.

        It forgets older calls, and walks through no others: all calls wait meanwhile.
        """
        oldest = self._clock() - WINDOW_SECONDS
        for times in self._times.values():
            times.begun.forget_until(oldest)
        return [(key, len(times.begun)) for key, times in self._times.items()]

    def has_room(self, key: str, limit: int) -> bool:
        """Whether a key may begin a call, perhaps after a short wait. Counts nothing."""
        return self._seconds_until_turn(key, limit) <= MAX_DELAY_SECONDS

    def seconds_until_room(self, key: str, limit: int) -> int:
        """Return the whole seconds until a key may begin a call, at least 1."""
        return max(1, math.ceil(self._seconds_until_turn(key, limit)))

    def forget_idle_keys(self) -> None:
        """Forget the keys without a call in the last minute."""
        oldest = self._clock() - WINDOW_SECONDS
        self._times = {key: times for key, times in self._times.items() if times.due > oldest}

    def _seconds_until_turn(self, key: str, limit: int) -> float:
        """Return the seconds until the next call of a key may begin."""
        times = self._times.get(key)
        return times.seconds_until_turn(limit, self._clock()) if times is not None else 0.0
