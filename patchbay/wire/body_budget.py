"""Limits the bytes of large request bodies in memory, so that a few senders cannot fill it.

A body parsed as JSON takes up to thirty times its size while its request runs. So bodies larger than SMALL_BYTES share
a budget from parsing to the end of their request, and a larger budget for their bytes while they arrive. A body waits
for the budget for a limited time; then it is refused with 503.
Source: CWE-400 (uncontrolled resource consumption).
"""

from __future__ import annotations

import threading

from patchbay.errors import PatchbayError

SMALL_BYTES = 16 * 1024
"""Bodies up to this size are not counted, because all threads together hold few of these bytes."""

ARRIVING_SHARE = 4
"""The budget for arriving bytes, as a multiple of the budget for parsed bodies."""

PATIENCE_SECONDS, TURN_SECONDS = 5.0, 1.0
"""Limits on the wait of a large body for the budget, and of any body for its turn to be read."""


class TooManyBytes(PatchbayError):
    """Other large bodies use the whole budget."""

    status = 503

    def __init__(self) -> None:
        super().__init__("other large requests are running; try again later (setting bodies_limit)")


class Budget:
    """A number of bytes that requests take and give back. A single request may take more than the whole budget."""

    def __init__(self, most_bytes: int, most_waiting: int) -> None:
        self._most = most_bytes
        self._most_waiting = most_waiting
        self._held = 0
        self._waiting = 0
        self._changed = threading.Condition()

    def acquire(self, size: int) -> None:
        """Take bytes; wait until they are free. Raises TooManyBytes (503)."""
        with self._changed:
            if not self._fits(size):
                self._wait(size)
            self._held += size

    def give_back(self, size: int) -> None:
        """Give bytes back."""
        with self._changed:
            self._held -= size
            self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        return self._held == 0 or self._held + size <= self._most

    def _wait(self, size: int) -> None:
        if self._waiting >= self._most_waiting:
            raise TooManyBytes
        self._waiting += 1
        try:
            if not self._changed.wait_for(lambda: self._fits(size), PATIENCE_SECONDS):
                raise TooManyBytes
        finally:
            self._waiting -= 1


class Turns:
    """Limits the bodies that are read at once; when half of the turns are in use, one address may have half of all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._reading: dict[object, str] = {}
        self._waiting = 0
        self._changed = threading.Condition()

    def acquire(self, address: str) -> object | None:
        """Take a turn; None after TURN_SECONDS without one. Takes no lock while turns are free."""
        if not self._is_free(address):
            with self._changed:
                self._waiting += 1
                try:
                    if not self._changed.wait_for(lambda: self._is_free(address), TURN_SECONDS):
                        return None
                finally:
                    self._waiting -= 1
        turn = object()
        self._reading[turn] = address
        return turn

    def give_back(self, turn: object) -> None:
        """End a turn."""
        del self._reading[turn]
        if self._waiting:
            with self._changed:
                self._changed.notify_all()

    def _is_free(self, address: str) -> bool:
        if 2 * len(self._reading) < self._most:
            return True
        reading = [*self._reading.values()]
        return len(reading) < self._most and 2 * reading.count(address) < self._most


class Bodies:
    """The two budgets of one worker, and the turns to read."""

    def __init__(self, most_bytes: int, threads: int) -> None:
        # Far below the number of threads, so that bodies that do not arrive leave most threads free.
        self.turns = Turns(max(1, threads // 4))
        self.arriving = Budget(ARRIVING_SHARE * most_bytes, max(1, threads // 8))
        self.parsed = Budget(most_bytes, max(1, threads // 8))
