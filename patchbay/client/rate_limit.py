"""A limit on the work that a server may cause without being asked: a burst, then a rate per second.

A server that floods (notifications, log lines, lines that are not messages, comments in a stream) is read no faster
than the limit: its pipe or connection fills, and it waits. Its answers are delayed too; other servers are not affected.
"""

from __future__ import annotations

import time

import anyio

from patchbay.limits import TokenBucket

MESSAGES_PER_SECOND, MESSAGE_BURST = 1_000.0, 5_000.0
"""Messages of a server that answer no request."""

TEXT_UNITS_PER_SECOND, TEXT_UNIT_BURST = 1024.0 * 1024, 16.0 * 1024 * 1024
LINE_UNITS, BLANK_LINE_UNITS = 256, 8
"""Text that is not a message: a byte costs one unit, and each line costs more; a blank line costs less."""


class RateLimiter:
    """A rate of units per second after a burst. Used on the event loop only."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._bucket = TokenBucket(per_second, burst, time.monotonic())

    async def acquire(self, units: float = 1.0) -> None:
        """Take units, and wait until they are available."""
        bucket = self._bucket
        bucket.tokens -= units
        if bucket.tokens < 0 and bucket.refill(time.monotonic()) < 0:
            await anyio.sleep(bucket.seconds_until(0))


def make_message_limiter() -> RateLimiter:
    """Make a limiter for messages that answer no request."""
    return RateLimiter(MESSAGES_PER_SECOND, MESSAGE_BURST)


def make_text_limiter() -> RateLimiter:
    """Make a limiter for text, counted by `count_text_units`."""
    return RateLimiter(TEXT_UNITS_PER_SECOND, TEXT_UNIT_BURST)


def count_text_units(text: bytes) -> int:
    """Count the units of a piece of text."""
    return len(text) + LINE_UNITS * text.count(b"\n")
