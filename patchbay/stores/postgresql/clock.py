"""The time of the database in this process: its distance from the monotonic clock here, measured again and again.

So a comparison with a stored time costs no query, and a wrong clock of this machine does not matter.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class StoreClock:
    """`ask` returns the time of the database: Unix time in seconds. Thread-safe."""

    def __init__(self, ask: Callable[[], float]) -> None:
        self._ask = ask
        self._distance = time.time() - time.monotonic()

    def measure(self) -> None:
        """Ask for the time; the answer is from the middle of the round trip. Raises the errors of `ask`."""
        before = time.monotonic()
        answer = self._ask()
        self._distance = answer - (before + time.monotonic()) / 2

    def now(self) -> float:
        """Return the present time of the database."""
        return time.monotonic() + self._distance
