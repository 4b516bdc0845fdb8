"""Threads for calls that nobody waits for in a thread of their own: one for each call, up to a bound.

A call is begun in the thread that brings it, and only when there is a place for it; the crew does the rest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class CallThreads:
    """At most `most` threads at work."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._working = 0
        self._changed = threading.Condition()

    def run(self, begin: Callable[[], Callable[[], None]]) -> bool:
        """Begin some work here and do the rest in a thread; False when there was no place, and nothing was begun."""
        with self._changed:
            if self._working >= self.most:
                return False
            self._working += 1
        try:
            threading.Thread(target=self._work, args=(begin(),), name="call", daemon=True).start()
        except BaseException:
            self._leave()
            raise
        return True

    def _work(self, rest: Callable[[], None]) -> None:
        try:
            rest()
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._changed:
            self._working -= 1
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until nobody works, no longer than `seconds`; whether that is so."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._working and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return not self._working
