"""Places for streams that only listen: how many there are, how many are taken, and how that was lately."""

from __future__ import annotations

import threading
import time
from collections import deque

REMEMBERED = 2000
"""Changes that are remembered."""


class ListenerSlots:
    """A bounded number of places. Safe to use from many threads."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._taken = 0
        self._past: deque[tuple[float, int]] = deque([(time.time(), 0)], maxlen=REMEMBERED)

    @property
    def taken(self) -> int:
        """How many are taken now."""
        return self._taken

    def acquire(self) -> bool:
        """Take a place, without waiting for one; whether there was one."""
        with self._lock:
            if self._taken >= self.most:
                return False
            self._changed(1)
            return True

    def release(self) -> None:
        """Give a place back. Raises ValueError when none was taken."""
        with self._lock:
            if self._taken == 0:
                raise ValueError("no place was taken")
            self._changed(-1)

    def past(self) -> list[tuple[float, int]]:
        """Changes of the number that is taken, oldest first: Unix time in seconds, and the number from then on."""
        with self._lock:
            return list(self._past)

    def _changed(self, by: int) -> None:
        self._taken += by
        self._past.append((time.time(), self._taken))
