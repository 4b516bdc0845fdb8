"""The thread that takes deliveries to the WebSockets of rooms: one for each worker, for all its rooms.

A WebSocket that is woken stands in the queue once. It sends at most one batch in its turn, so that all are served
alike; one whose reader is behind is asked again after a moment.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import deque
from typing import Protocol

log = logging.getLogger(__name__)

BEHIND_SECONDS = 0.05
"""How long a reader that is behind has until it is asked again."""


class Receiver(Protocol):
    """A WebSocket that deliveries go to."""

    def deliver(self) -> bool:
        """Send a batch; whether there may be more."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether it takes nothing now."""
        ...


class DeliveryThread:
    """Runs from its first use to the end of the process. Safe to use from many threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._woken: deque[Receiver] = deque()
        self._waiting: set[Receiver] = set()
        self._later: list[tuple[float, int, Receiver]] = []
        self._number = 0
        self._thread: threading.Thread | None = None

    def wake(self, receiver: Receiver) -> None:
        """Let a WebSocket send soon; returns at once."""
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="room deliveries", daemon=True)
                self._thread.start()
            if receiver not in self._waiting:
                self._waiting.add(receiver)
                self._woken.append(receiver)
                self._changed.notify()

    def _run(self) -> None:
        while True:
            receiver = self._next()
            try:
                self._serve(receiver)
            except Exception:
                log.exception("deliveries of a room could not be sent")

    def _next(self) -> Receiver:
        with self._changed:
            while True:
                now = time.monotonic()
                while self._later and self._later[0][0] <= now:
                    self._woken.append(heapq.heappop(self._later)[2])
                if self._woken:
                    return self._woken.popleft()
                self._changed.wait(self._later[0][0] - now if self._later else None)

    def _serve(self, receiver: Receiver) -> None:
        if receiver.is_behind:
            with self._changed:
                self._number += 1
                heapq.heappush(self._later, (time.monotonic() + BEHIND_SECONDS, self._number, receiver))
            return
        with self._changed:
            self._waiting.discard(receiver)
        if receiver.deliver():
            self.wake(receiver)
