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

BURST_SECONDS = (CALLS_AT_ONCE - 1) * PACE_SECONDS
"""Calls at once in seconds of pace, for a limit of one call in a minute."""

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
        begun, wait = self.begun, self.due - now - BURST_SECONDS / limit
        if begun:  # empty where the limit has a pace only
            while begun and begun[0] <= now - WINDOW_SECONDS:
                begun.popleft()
            if len(begun) >= limit:
                wait = max(wait, begun[-limit] + WINDOW_SECONDS - now)
        return wait if wait > 0.0 else 0.0

    def count(self, limit: int, now: float, delay: float) -> None:
        """Count a call that begins after a delay."""
        if limit <= MAX_EXACT_LIMIT:
            self.begun.append(now + delay)
        self.due = (self.due if self.due > now else now) + PACE_SECONDS / limit


class CallRates:
    """The calls of the last minute. For one thread at a time. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._calls: dict[str, _Calls] = {}
        self._counted = 0

    def count(self, limits: Sequence[tuple[str, int]]) -> float | str:
        """Count a call of some keys, each with its limit for a minute.

        Return the seconds after which the call may begin (0: at once); or the key that refuses it, and then no key
        counts the call.
        """
        now, delay, known = self._clock(), 0.0, self._calls
        for key, limit in limits:
            calls = known.get(key)
            if calls is None:
                calls = known[key] = _Calls()
            wait = calls.seconds_until_turn(limit, now)
            if wait > delay:
                if wait > MAX_DELAY_SECONDS:
                    return key
                delay = wait
        for key, limit in limits:
            known[key].count(limit, now, delay)
        self._counted += 1
        if self._counted >= SWEEP_CALLS:
            self._sweep(now)
        return delay

    def has_room(self, key: str, limit: int) -> bool:
        """Whether a key may begin a call, perhaps after a short wait. Counts nothing."""
        return self._seconds_until_turn(key, limit) <= MAX_DELAY_SECONDS

    def seconds_until_room(self, key: str, limit: int) -> int:
        """Return the whole seconds until a key may begin a call, at least 1."""
        return max(1, math.ceil(self._seconds_until_turn(key, limit)))

    def _seconds_until_turn(self, key: str, limit: int) -> float:
        """Return the seconds until the next call of a key may begin."""
        calls = self._calls.get(key)
        return calls.seconds_until_turn(limit, self._clock()) if calls is not None else 0.0

    def _sweep(self, now: float) -> None:
        self._counted = 0
        oldest = now - WINDOW_SECONDS
        self._calls = {key: calls for key, calls in self._calls.items() if calls.due > oldest}
