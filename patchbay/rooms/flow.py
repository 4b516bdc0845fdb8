"""Flow control of streams for one reader: paused streams are held back, missing frames are sent again.

Source: ENSO-1, `flow.pause`, `flow.resume` and `flow.nack` with `streamId` and, for the last, `missing` (numbers).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection

from patchbay.rooms.feed import Delivery

MAX_HELD_FRAMES = 256
"""Frames of one stream that are held back or can be sent again."""

MAX_STREAMS = 64
"""Limit of the streams of one reader that are kept."""


class Flow:
    """The streams of one reader. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paused: set[str] = set()
        self._sent: dict[str, deque[Delivery]] = {}
        self._held: dict[str, deque[Delivery]] = {}

    def lets_pass(self, delivery: Delivery) -> bool:
        """Whether a frame may go to the reader now; a frame of a paused stream is held back."""
        stream = str(delivery.envelope["payload"].get("streamId"))
        with self._lock:
            table = self._held if stream in self._paused else self._sent
            table.setdefault(stream, deque(maxlen=MAX_HELD_FRAMES)).append(delivery)
            while len(table) > MAX_STREAMS:
                del table[next(iter(table))]
            return stream not in self._paused

    def pause(self, stream: str) -> None:
        """Hold back the frames of a stream from now on. Beyond MAX_STREAMS paused streams nothing changes."""
        with self._lock:
            if len(self._paused) < MAX_STREAMS:
                self._paused.add(stream)

    def resume(self, stream: str) -> list[Delivery]:
        """Resume a stream; return the frames that were held back, at most the newest MAX_HELD_FRAMES."""
        with self._lock:
            self._paused.discard(stream)
            held = list(self._held.pop(stream, ()))
            self._sent.setdefault(stream, deque(maxlen=MAX_HELD_FRAMES)).extend(held)
            return held

    def missing(self, stream: str, numbers: Collection[int]) -> list[Delivery]:
        """Return the frames of a stream with these numbers, as far as they are still kept."""
        wanted = set(numbers)
        with self._lock:
            return [one for one in self._sent.get(stream, ()) if one.envelope["payload"].get("seq") in wanted]
