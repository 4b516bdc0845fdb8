"""How many bytes of large request bodies are held at once, so that few senders cannot fill the memory.

A body that is read as JSON takes up to thirty times its size, for as long as its request is in work. So bodies larger
than SMALL_BYTES share a budget from the moment they are parsed until their request ends, and a larger one, which
counts the bytes themselves, while they arrive. A body waits for its turn, then it is refused with 503.
Sources: issue 11 item 11; DESIGN section 6 (every queue has a bound and a named policy).
"""

from __future__ import annotations

import threading

from patchbay.errors import PatchbayError

SMALL_BYTES = 16 * 1024
"""Bodies up to this size are not counted: all threads together hold little of them."""

ARRIVING_SHARE = 4
"""How many times the budget for parsed bodies the bytes may take that are still arriving."""

PATIENCE_SECONDS, TURN_SECONDS = 5.0, 1.0
"""How long a large body waits for others to end; how long any body waits for its turn to be read."""


class TooManyBytes(PatchbayError):
    """Other large bodies take all the memory there is for them."""

    status = 503

    def __init__(self) -> None:
        super().__init__("other large requests are in work; try again later (setting bodies_limit)")


class Budget:
    """So many bytes, given out and taken back. One request may have more than all of them when it is alone."""

    def __init__(self, most_bytes: int, most_waiting: int) -> None:
        self._most = most_bytes
        self._most_waiting = most_waiting
        self._held = 0
        self._waiting = 0
        self._changed = threading.Condition()

    def take(self, size: int) -> None:
        """Hold so many bytes more; waits for them. Raises TooManyBytes (503)."""
        with self._changed:
            if not self._fits(size):
                self._wait(size)
            self._held += size

    def give_back(self, size: int) -> None:
        """Hold so many bytes less."""
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
    """So many bodies are read at a time; once half of the turns are taken, an address has no more than half of all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._reading: dict[object, str] = {}
        self._waiting = 0
        self._changed = threading.Condition()

    def take(self, address: str) -> object | None:
        """A turn, to be given back; None when there was none within TURN_SECONDS. No lock is taken while there are."""
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
        # Far below the number of threads: bodies that do not arrive leave most of them to everybody else.
        self.turns = Turns(max(1, threads // 4))
        self.arriving = Budget(ARRIVING_SHARE * most_bytes, max(1, threads // 8))
        self.parsed = Budget(most_bytes, max(1, threads // 8))
