"""A bound on what a server may make this process do by itself: so much a second after a burst, then it is read slower.

A server that floods (notifications, log lines, lines that are no messages, comments in a stream) is not read faster
than that: its own pipe or connection fills, and it waits. Its answers come later too; other servers notice nothing.
Sources: issue 11 item 13; THREATS 1.7 (hostile upstream).
"""

from __future__ import annotations

import time

import anyio

MESSAGES_PER_SECOND, MESSAGE_BURST = 1_000.0, 5_000.0
"""Messages of a server that are no answers."""

TEXT_UNITS_PER_SECOND, TEXT_UNIT_BURST = 1024.0 * 1024, 16.0 * 1024 * 1024
LINE_UNITS, BLANK_LINE_UNITS = 256, 8
"""Text that is no message: a byte is a unit, and every line costs more, an empty one less of it."""


class RateLimiter:
    """So many units a second, after a burst of so many. Used on the loop only."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._rate, self._burst, self._left = per_second, burst, burst
        self._at = time.monotonic()

    async def acquire(self, units: float = 1.0) -> None:
        """Take units, and wait until they were there."""
        self._left -= units
        if self._left < 0:
            now = time.monotonic()
            self._left = min(self._burst, self._left + (now - self._at) * self._rate)
            self._at = now
            if self._left < 0:
                await anyio.sleep(-self._left / self._rate)


def make_message_limiter() -> RateLimiter:
    """For messages that are no answers."""
    return RateLimiter(MESSAGES_PER_SECOND, MESSAGE_BURST)


def make_text_limiter() -> RateLimiter:
    """For text, counted by `count_text_units`."""
    return RateLimiter(TEXT_UNITS_PER_SECOND, TEXT_UNIT_BURST)


def count_text_units(text: bytes) -> int:
    """What a piece of text costs."""
    return len(text) + LINE_UNITS * text.count(b"\n")
