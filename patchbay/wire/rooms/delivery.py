"""The thread that sends deliveries to the WebSockets of rooms: one for each worker, for all its rooms.

It works in rounds. In a round, each WebSocket that was woken sends at most one batch; WebSockets that read the same
deliveries share the bytes of the batch. After a round the thread waits about as long as the round took: with few
readers an event goes out at once; with many, more events go out in one batch, and other threads have their turn. A
WebSocket whose reader is behind is asked again after a moment.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from patchbay.background import BackgroundLoop
from patchbay.rooms.feed import Delivery
from patchbay.wire.endpoints.websocket_routes import TextFrames, frame_text

log = logging.getLogger(__name__)

BEHIND_SECONDS = 0.05
"""How long a reader that is behind has until it is asked again."""

MAX_PAUSE_SECONDS = 0.1
"""The longest wait between two rounds."""

SHARED_BATCHES = 32
"""Batches that are remembered for the WebSockets that read the same deliveries."""


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
        self._woken: list[Receiver] = []
        self._waiting: set[Receiver] = set()
        self._later: list[tuple[float, int, Receiver]] = []
        self._number = 0
        self._loop = BackgroundLoop("room deliveries", self._run, "deliveries of rooms could not be sent")

    def wake(self, receiver: Receiver) -> None:
        """Let a WebSocket send soon; returns at once."""
        with self._changed:
            if not self._loop.is_started:
                self._loop.start()
            if receiver not in self._waiting:
                self._waiting.add(receiver)
                self._woken.append(receiver)
                if len(self._woken) == 1:
                    self._changed.notify()

    def _run(self) -> float:
        """Serve the next WebSockets that were woken; return the seconds until the next round."""
        receivers, begun = self._next_round(), time.monotonic()
        for receiver in receivers:
            try:
                self._serve(receiver)
            except Exception:
                log.exception("deliveries of a room could not be sent")
        return min(time.monotonic() - begun, MAX_PAUSE_SECONDS)

    def _next_round(self) -> list[Receiver]:
        with self._changed:
            while True:
                now = time.monotonic()
                while self._later and self._later[0][0] <= now:
                    self._woken.append(heapq.heappop(self._later)[2])
                if self._woken:
                    found, self._woken = self._woken, []
                    return found
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


class SharedBatches:
    """The frames of the newest batches. For the delivery thread alone."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[int, ...], tuple[Sequence[Delivery], TextFrames]] = OrderedDict()

    def frames(self, deliveries: Sequence[Delivery]) -> TextFrames:
        """Return deliveries as frames: the same bytes for every WebSocket that sends the same deliveries."""
        # The entry holds the deliveries, so that no other delivery can have their identities meanwhile.
        key = tuple(map(id, deliveries))
        known = self._found.get(key)
        if known is not None:
            return known[1]
        made = TextFrames(b"".join([frame_text(one.frame) for one in deliveries]))
        self._found[key] = (deliveries, made)
        if len(self._found) > SHARED_BATCHES:
            self._found.popitem(last=False)
        return made
