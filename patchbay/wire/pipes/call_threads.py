"""Threads for the calls of a connection: one for each call, up to a limit.

A call begins in the thread that received it, if a thread is free to continue it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from patchbay.background import run_in_background


class CallThreads:
    """At most `max_threads` threads at once."""

    def __init__(self, max_threads: int) -> None:
        self.max_threads = max_threads
        self._working = 0
        self._changed = threading.Condition()

    def run(self, begin: Callable[[], Callable[[], None]]) -> bool:
        """Begin work here and continue it in a thread; return False, without beginning, if no thread is free."""
        with self._changed:
            if self._working >= self.max_threads:
                return False
            self._working += 1
        try:
            run_in_background("call", self._work, begin())
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
        """Wait up to `seconds` until no thread works; return whether that is so."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._working and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return not self._working
