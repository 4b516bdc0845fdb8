"""The lists of a mounted server that got no answer, and when they are asked for again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from patchbay.upstreams.liveness import Patience

MIN_WAIT_SECONDS = 0.5
"""Seconds between two looks at lists whose time has come while the server works on a call."""


class UnreadLists:
    """Which lists got no answer in time, by method such as `tools/list`. For one thread.

    They are asked for again after `Patience.first_retry` seconds, then after twice the time each, up to `last_retry`.
    """

    def __init__(self, patience: Patience, now: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience
        self._now = now
        self._unread: dict[str, str] = {}
        self._pause = 0.0
        self._due = math.inf

    def seconds_for(self, method: str, is_retry: bool) -> float:
        """Return the seconds in which a page of this list has to be answered.

        The first reading of a connection is short, because the mount serves nothing before its end.
        """
        if is_retry and method in self._unread:
            return self._patience.retried_list
        return self._patience.next_list if self._unread and method != "tools/list" else self._patience.list

    def note_silence(self, method: str) -> None:
        """Record a list that got no answer in time."""
        self._unread[method] = f"notifications/{method.partition('/')[0]}/list_changed"
        if self._due == math.inf:
            self._pause = min(2 * self._pause, self._patience.last_retry) or self._patience.first_retry
            self._due = self._now() + self._pause

    def note_answer(self, method: str) -> None:
        """Record a list that got an answer."""
        self._unread.pop(method, None)
        if not self._unread:
            self._pause, self._due = 0.0, math.inf

    def seconds_left(self) -> float:
        """Return the seconds until lists have to be asked for again, at least MIN_WAIT_SECONDS; `inf` without any."""
        return max(MIN_WAIT_SECONDS, self._due - self._now())

    def get_due(self) -> frozenset[str]:
        """Return the notifications of the lists that have to be asked for again now; empty before their time."""
        if self._due > self._now():
            return frozenset()
        self._due = math.inf
        return frozenset(self._unread.values())
