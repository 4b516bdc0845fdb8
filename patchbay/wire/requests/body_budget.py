"""Limits the bytes of large request bodies in memory, so that a few senders cannot fill it.

A body parsed as JSON takes from four to thirty times its size while its request runs: a long text little, a million
empty lists much. So bodies larger than SMALL_BYTES share a budget of memory from parsing until their request has ended
or only listens, and another one for their bytes while they arrive. One caller has at most a share of each budget, so
that it cannot hold all of it. A body waits for the budget for a limited time; then it is refused.
Source: CWE-400 (uncontrolled resource consumption).
"""

from __future__ import annotations

import threading

from patchbay.errors import OverQuota, PatchbayError

SMALL_BYTES = 16 * 1024
"""Bodies up to this size are not counted, because all threads together hold few of these bytes."""

ARRIVING_SHARE = 4
"""The budget for arriving bytes, as a multiple of the budget for parsed bodies."""

MEMORY_FACTOR = 30
"""The budget of memory for parsed bodies, as a multiple of `bodies_limit`: the most that a body takes when parsed."""

CALLER_SHARE = 4
"""One caller may hold this fraction of a budget; always one body."""

BYTES_OF_CHARACTER, BYTES_OF_VALUE, BYTES_OF_OBJECT = 4, 80, 240
"""Memory of a parsed character, of a value in a list or an object, and of an object (CPython 3.11, 64 bits)."""

OWN_RETRY_SECONDS = 1

PATIENCE_SECONDS, TURN_SECONDS = 5.0, 1.0
"""Limits on the wait of a large body for the budget, and of any body for its turn to be read."""


class TooManyBytes(PatchbayError):
    """Other large bodies use the whole budget."""

    status = 503

    def __init__(self) -> None:
        super().__init__("other large requests are running; try again later (setting bodies_limit)")


class TooManyOwnBytes(OverQuota):
    """Other large bodies of the same caller use its share of the budget."""

    def __init__(self) -> None:
        super().__init__(
            "other large requests of this caller are running; try again when one has ended (setting bodies_limit)",
            OWN_RETRY_SECONDS,
        )


def parsed_size(body: bytes) -> int:
    """Return how many bytes of memory a body takes at most when it is parsed as JSON."""
    values = body.count(b",") + body.count(b"[")
    return BYTES_OF_CHARACTER * len(body) + BYTES_OF_VALUE * values + BYTES_OF_OBJECT * body.count(b"{")


class Budget:
    """A number of bytes that requests take and give back. A single request may take more than the whole budget.

    A caller that is named has at most a CALLER_SHARE of the budget.
    """

    def __init__(self, max_bytes: int, max_waiting: int) -> None:
        self._max_bytes = max_bytes
        self._max_waiting = max_waiting
        self._held = 0
        self._held_by: dict[str, int] = {}
        self._waiting = 0
        self._changed = threading.Condition()

    def acquire(self, size: int, caller: str = "") -> None:
        """Take bytes for a caller, "" for one without a name; wait until they are free.

        Raises TooManyBytes (503), and TooManyOwnBytes (429) at once for a caller that holds its share.
        """
        with self._changed:
            self._check_share(size, caller)
            if not self._fits(size):
                self._wait(size)
                self._check_share(size, caller)
            self._held += size
            self._held_by[caller] = self._held_by.get(caller, 0) + size

    def give_back(self, size: int, caller: str = "") -> None:
        """Give bytes of a caller back."""
        with self._changed:
            self._held -= size
            own = self._held_by.get(caller, 0) - size
            if own > 0:
                self._held_by[caller] = own
            else:
                self._held_by.pop(caller, None)
            self._changed.notify_all()

    def _check_share(self, size: int, caller: str) -> None:
        """Raise TooManyOwnBytes for a caller that holds its share. It takes no place among those that wait."""
        own = self._held_by.get(caller, 0)
        if caller and own and own + size > self._max_bytes // CALLER_SHARE:
            raise TooManyOwnBytes

    def _fits(self, size: int) -> bool:
        return self._held == 0 or self._held + size <= self._max_bytes

    def _wait(self, size: int) -> None:
        if self._waiting >= self._max_waiting:
            raise TooManyBytes
        self._waiting += 1
        try:
            if not self._changed.wait_for(lambda: self._fits(size), PATIENCE_SECONDS):
                raise TooManyBytes
        finally:
            self._waiting -= 1


class Turns:
    """Limits the bodies that are read at once; when half of the turns are in use, one address may have half of all."""

    def __init__(self, max_threads: int) -> None:
        self._max_threads = max_threads
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
        if 2 * len(self._reading) < self._max_threads:
            return True
        reading = [*self._reading.values()]
        return len(reading) < self._max_threads and 2 * reading.count(address) < self._max_threads


class Bodies:
    """The two budgets of one worker, and the turns to read."""

    def __init__(self, max_bytes: int, threads: int) -> None:
        # Far below the number of threads, so that bodies that do not arrive leave most threads free.
        self.turns = Turns(max(1, threads // 4))
        self.arriving = Budget(ARRIVING_SHARE * max_bytes, max(1, threads // 8))
        self.parsed = Budget(MEMORY_FACTOR * max_bytes, max(1, threads // 8))
