"""The bounds of rooms, as the settings give them, and the rate of one sender."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from patchbay.limits import TokenBucket
from patchbay.pins.documents import CHANGES, Changes
from patchbay.pins.records import default_changes
from patchbay.settings import Settings

BURST = 4.0
"""Length of a burst, in seconds of a sender's rate."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes of an envelope, envelopes a second of one session, counts in one room, bytes of a log, seconds.

    `changes` is the policy for changed tools of members.
    """

    envelope: int = 1024 * 1024
    rate: float = 50.0
    members: int = 2000
    calls: int = 256
    tools: int = 2000
    log: int = 256 * 1024 * 1024
    replay: float = 300.0
    idle: float = 60.0
    rooms: int = 1000
    unused: float = 600.0
    """Seconds without an `open` after which a process closes a room without participants."""
    changes: Changes = "tell"

    @classmethod
    def of(cls, settings: Settings) -> Bounds:
        """The bounds that the settings give."""
        return cls(
            envelope=settings.room_envelope_limit,
            rate=settings.room_rate,
            members=settings.room_members,
            calls=settings.room_calls,
            tools=settings.room_tools,
            log=settings.room_log_limit,
            replay=settings.room_replay,
            idle=settings.room_idle,
            rooms=settings.room_count,
            changes=room_changes(settings.room_changes, settings.mode),
        )


def room_changes(setting: str, access: str) -> Changes:
    """Return the policy for changed tools of rooms; `auto` depends on the hub's setting `access`."""
    return next((each for each in CHANGES if each == setting), default_changes(access))


class Rate:
    """A rate `per_second` with a burst of BURST seconds, or of `least` tokens if that is more.

    Safe to use from many threads.
    """

    def __init__(self, per_second: float, least: float = 1.0) -> None:
        self._bucket = TokenBucket(per_second, max(least, per_second * BURST), time.monotonic())
        self._lock = threading.Lock()

    def take(self, tokens: float = 1.0) -> bool:
        """Take tokens; return whether there were so many."""
        with self._lock:
            return self._bucket.take(tokens, time.monotonic())
