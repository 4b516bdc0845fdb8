"""Limits the frames of WebSockets, of each one and of each principal, so that none of them keeps the event loop.

A WebSocket whose frames come faster is read later: nothing of it is lost, and its sender waits. Any frame counts, a
ping like a message, because each takes time on the loop. In other modes than the shared one all senders are one
principal, so only each WebSocket has a limit.
Source: RFC 6455, section 5.5.2 (a ping may be sent at any time); CWE-770 (allocation without limits).
"""

from __future__ import annotations

from patchbay.limits import TokenBucket

FRAMES_PER_SECOND = 2000
"""Frames of one WebSocket in a second."""

PRINCIPAL_FRAMES_PER_SECOND = 4000
"""Frames of all WebSockets of one principal in a second, in each worker: a tenth of the time of the loop."""

AT_ONCE = 0.25
"""A sender may send the frames of so many seconds at once."""


class FrameRate:
    """A rate in frames a second. Times are in seconds, of one clock. It may be exceeded by the last frames read."""

    __slots__ = ("_bucket",)

    def __init__(self, per_second: float) -> None:
        self._bucket = TokenBucket(per_second, per_second * AT_ONCE, 0.0)

    def seconds_until_more(self, now: float) -> float:
        """Return the seconds after which further frames may be read; 0 for now."""
        return 0.0 if self._bucket.refill(now) > 0 else self._bucket.seconds_until(1)

    def count(self, frames: int) -> None:
        """Count frames that were read."""
        self._bucket.tokens -= frames


class FrameRates:
    """The rates of the WebSockets of one worker; `has_principals` says whether each principal has one too."""

    def __init__(self, has_principals: bool) -> None:
        self._has_principals = has_principals
        self._open: dict[str, tuple[FrameRate, int]] = {}

    def open(self, principal: str) -> tuple[FrameRate, ...]:
        """Return the rates of a new WebSocket of a principal."""
        own = FrameRate(FRAMES_PER_SECOND)
        if not self._has_principals:
            return (own,)
        shared, number = self._open.get(principal) or (FrameRate(PRINCIPAL_FRAMES_PER_SECOND), 0)
        self._open[principal] = (shared, number + 1)
        return (own, shared)

    def close(self, principal: str) -> None:
        """Forget a principal with its last WebSocket."""
        shared, number = self._open.pop(principal, (None, 0))
        if shared is not None and number > 1:
            self._open[principal] = (shared, number - 1)
