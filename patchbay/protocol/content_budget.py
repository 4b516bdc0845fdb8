"""Limits the contents of links that running calls of this process hold, so that links cannot fill its memory.

A link of a few bytes in a request becomes a content of many megabytes (`linked_arguments.py`), which the limit on the
bodies of requests does not count. A content counts until its call is gone.
Source: CWE-400 (uncontrolled resource consumption).
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter

from patchbay.errors import OverQuota

CONTENT_BYTES = 64 * 1024 * 1024
"""Bytes of all contents. One caller has at most half of them; a call alone may always have its contents."""

RETRY_SECONDS = 1


class ContentBudget:
    """Counts the contents of running calls by caller. Thread-safe."""

    def __init__(self, limit: int = CONTENT_BYTES) -> None:
        self._limit = limit
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Return the bytes of all contents now."""
        with self._lock:
            return self._held.total()

    def take(self, principal: str, size: int) -> None:
        """Count the content of one more link of a caller. Raises OverQuota."""
        with self._lock:
            own, total = self._held[principal], self._held.total()
            if (own and own + size > self._limit // 2) or (total and total + size > self._limit):
                raise OverQuota(
                    "the contents of links in the calls that run now take too much memory: try again when some have"
                    " ended, with fewer calls at a time",
                    RETRY_SECONDS,
                )
            self._held[principal] += size

    def give_back(self, principal: str, size: int) -> None:
        """Count contents no longer."""
        with self._lock:
            self._held[principal] -= size
            if self._held[principal] <= 0:
                del self._held[principal]


class CallContents:
    """The contents of one call. They count until `release`, or until the object that was given to `last` is gone."""

    def __init__(self, budget: ContentBudget, principal: str) -> None:
        self._budget = budget
        self._principal = principal
        self._size = 0

    def add(self, size: int) -> None:
        """Count one more content. Raises OverQuota."""
        self._budget.take(self._principal, size)
        self._size += size

    def last(self, owner: object) -> None:
        """Count the contents as long as `owner` exists."""
        if self._size:
            weakref.finalize(owner, self._budget.give_back, self._principal, self._size)

    def release(self) -> None:
        """Count the contents no longer."""
        if self._size:
            self._budget.give_back(self._principal, self._size)


CONTENTS = ContentBudget()
"""The contents of the calls of this process."""
