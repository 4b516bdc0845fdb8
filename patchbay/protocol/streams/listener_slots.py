"""The limits on listening streams (of all callers, and of each), the number of open ones, and its recent history."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from patchbay.access.principals import Principal
from patchbay.access.quotas import QuotaPlace, Quotas

REMEMBERED = 2000
"""Limit on the stored changes of the number."""


class ListenerSlots:
    """A bounded number of slots. Safe to use from many threads. Without `quotas`, no caller has a limit."""

    def __init__(self, max_streams: int, quotas: Quotas | None = None) -> None:
        self.max_streams = max_streams
        self._quotas = quotas
        self._lock = threading.Lock()
        self._taken = 0
        self._past: deque[tuple[float, int]] = deque([(time.time(), 0)], maxlen=REMEMBERED)

    @property
    def in_use(self) -> int:
        """The number of slots in use."""
        return self._taken

    def acquire(self) -> bool:
        """Try to take a slot without waiting; return whether it succeeded."""
        with self._lock:
            if self._taken >= self.max_streams:
                return False
            self._changed(1)
            return True

    def open(self, sender: Principal, server: str = "", is_websocket: bool = False) -> Callable[[], None] | None:
        """Try to take a slot for a stream of a principal; return the function that releases it, None without a slot.

        `server` is the server that the stream listens to, if it is one. A WebSocket counts as a stream, too. Raises
        OverQuota.
        """
        places = self._count(sender, server, is_websocket)
        if not self.acquire():
            for place in places:
                place.release()
            return None

        return partial(self._give_back, places) if places else self.release

    def _give_back(self, places: list[QuotaPlace]) -> None:
        for place in places:
            place.release()
        self.release()

    def _count(self, sender: Principal, server: str, is_websocket: bool) -> list[QuotaPlace]:
        """Count a stream of a principal; return its places. Raises OverQuota."""
        if self._quotas is None:
            return []
        stream = self._quotas.open_stream(sender, server)
        try:
            websocket = self._quotas.open_websocket(sender) if is_websocket else None
        except BaseException:
            if stream is not None:
                stream.release()
            raise
        return [place for place in (stream, websocket) if place is not None]

    def release(self) -> None:
        """Release a slot. Raises ValueError if no slot is in use."""
        with self._lock:
            if self._taken == 0:
                raise ValueError("no place was taken")
            self._changed(-1)

    def changes(self) -> list[tuple[float, int]]:
        """Return the changes of the number of slots in use, oldest first: Unix time in seconds and the new number."""
        with self._lock:
            return list(self._past)

    def _changed(self, by: int) -> None:
        self._taken += by
        self._past.append((time.time(), self._taken))
