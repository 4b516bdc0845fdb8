"""The received bytes of one WebSocket: its framing gets them in parts, at the rates of its sender.

All of it runs on the event loop, which looks at its other connections between two parts. While bytes wait here, the hub
reads no more of the connection, so that its sender waits; nothing is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from websockets.protocol import Protocol as Framing

from patchbay.wire.front.frame_rates import FrameRate

PART_BYTES = 2048
"""Received bytes that are taken at a time: some 340 frames without content."""


class IncomingFrames:
    """Hands bytes to `framing`; `handle` then takes its frames and returns their number. `rates` limit the frames.

    `heard` is the time of the loop at which bytes were last received or taken.
    """

    def __init__(
        self,
        framing: Framing,
        transport: asyncio.Transport,
        rates: tuple[FrameRate, ...],
        handle: Callable[[], int],
    ) -> None:
        self._framing = framing
        self._transport = transport
        self._rates = rates
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self.heard = self._loop.time()
        self._waiting = bytearray()
        self._later: asyncio.Handle | None = None
        self._has_eof = self._is_held = False

    def add(self, data: bytes) -> None:
        """Take received bytes: a part now, the others in turn."""
        self.heard = self._loop.time()
        self._waiting += data
        self._take()

    def end(self) -> bool:
        """The other end sends no more; return whether bytes still wait, so that the transport has to stay open."""
        self._has_eof = True
        self._take()
        return bool(self._waiting)

    def hold(self) -> None:
        """Take no more bytes until `go_on`."""
        self._is_held = True
        self._transport.pause_reading()

    def go_on(self) -> None:
        """Take bytes again."""
        self._is_held = False
        self._take()

    def close(self) -> None:
        """Drop what waits, because the connection is gone."""
        self._waiting.clear()
        if self._later is not None:
            self._later.cancel()

    def _take(self) -> None:
        if self._later is not None or self._is_held:
            return
        if self._transport.is_closing():
            self._waiting.clear()
            return
        pause = max((rate.seconds_until_more(self._loop.time()) for rate in self._rates), default=0.0)
        if self._waiting and not pause:
            self._framing.receive_data(bytes(self._waiting[:PART_BYTES]))
            del self._waiting[:PART_BYTES]
            frames = self._handle()
            for rate in self._rates:
                rate.count(frames)
        if self._waiting:
            self.heard = self._loop.time()
            self._transport.pause_reading()
            self._later = self._loop.call_later(pause, self._take_later)
        elif self._has_eof:
            self._framing.receive_eof()
            self._handle()
            self._transport.close()
        elif not self._is_held:
            self._transport.resume_reading()

    def _take_later(self) -> None:
        self._later = None
        self._take()
