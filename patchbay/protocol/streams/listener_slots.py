"""The limit on listening streams, the number of open ones, and its recent history."""

from __future__ import annotations

import threading
import time
from collections import deque

REMEMBERED = 2000
"""Limit on the stored changes of the number."""


class ListenerSlots:
    """A bounded number of slots. Safe to use from many threads."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._taken = 0
        self._past: deque[tuple[float, int]] = deque([(time.time(), 0)], maxlen=REMEMBERED)

    @property
    def taken(self) -> int:
        """The number of slots in use."""
        return self._taken

    def acquire(self) -> bool:
        """Try to take a slot without waiting; return whether it succeeded."""
        with self._lock:
            if self._taken >= self.most:
                return False
            self._changed(1)
            return True

    def release(self) -> None:
        """Release a slot. Raises ValueError if no slot is in use."""
        with self._lock:
            if self._taken == 0:
                raise ValueError("no place was taken")
            self._changed(-1)

    def past(self) -> list[tuple[float, int]]:
        """Return the changes of the number of slots in use, oldest first: Unix time in seconds and the new number."""
        with self._lock:
            return list(self._past)

    def _changed(self, by: int) -> None:
        self._taken += by
        self._past.append((time.time(), self._taken))
