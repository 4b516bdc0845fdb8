"""A limit on the time of what one thread asks of SQLite: a statement is interrupted when it is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from patchbay.errors import TimedOut
from patchbay.sqlite import sqlite3

PROGRESS_STEPS = 10_000
"""Steps of SQLite's machine between two looks at the clock, about a millisecond."""


class TimeLimit:
    """The limits of an index, one for each thread that searches; a thread without one is never interrupted."""

    def __init__(self) -> None:
        self._threads = threading.local()

    @contextmanager
    def within_seconds(self, seconds: float) -> Iterator[None]:
        """Limit what this thread asks in the block."""
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
        """End the statements of the block when the time of this thread is over. Raises TimedOut then."""
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
