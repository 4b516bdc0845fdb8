"""Limits the time of one thread's SQLite statements by interrupting them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from patchbay.errors import TimedOut
from patchbay.sqlite import sqlite3

PROGRESS_STEPS = 10_000
"""Instructions of SQLite's virtual machine between two checks of the time, about a millisecond."""


class TimeLimit:
    """The time limits of an index, one for each thread; a thread without a limit is never interrupted."""

    def __init__(self) -> None:
        self._threads = threading.local()

    @contextmanager
    def within_seconds(self, seconds: float) -> Iterator[None]:
        """Limit the time of this thread's statements in the block."""
        self._threads.limit = seconds, time.monotonic() + seconds
        try:
            yield
        finally:
            del self._threads.limit

    def check(self) -> None:
        """Raise TimedOut when the time of this thread is over."""
        seconds, end = getattr(self._threads, "limit", (0.0, None))
        if end is not None and time.monotonic() >= end:
            raise TimedOut(f"the search took longer than {seconds:g} seconds and was ended: use fewer words")

    @contextmanager
    def interrupt(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Interrupt the statements of the block when the time of this thread is over. Raises TimedOut."""
        _, end = getattr(self._threads, "limit", (0.0, None))
        if end is None:
            yield
            return
        connection.set_progress_handler(lambda: time.monotonic() >= end, PROGRESS_STEPS)
        try:
            yield
        except sqlite3.OperationalError:
            self.check()
            raise
        finally:
            connection.set_progress_handler(None, 0)
