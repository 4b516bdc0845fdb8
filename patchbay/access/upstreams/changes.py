"""Ends in this process what uses a credential of a caller at a mounted server that has ended.

An account may be disconnected, or its person or key removed, by another process or machine. A message on the bus begins
a look at once. A message may be lost, so that there is a look every few seconds too: it reads the accounts of what is
open now, and nothing where nothing is open.
"""

from __future__ import annotations

from collections.abc import Callable

from patchbay.background import BackgroundLoop
from patchbay.store import Bus
from patchbay.topics import ACCESS_ENDED, UPSTREAM_SIGN_INS_CHANGED

LOOK_SECONDS = 2.0
"""Seconds between two looks without a message."""

CLOSE_SECONDS = 5.0


class CredentialChanges:
    """Calls `end_outdated` after each change, from `start` to `close`."""

    def __init__(self, bus: Bus, end_outdated: Callable[[], None]) -> None:
        self._bus = bus
        self._end_outdated = end_outdated
        failure = "no look for credentials at mounted servers that have ended"
        self._loop = BackgroundLoop("accounts at servers", self._run, failure, retry_seconds=LOOK_SECONDS)

    def start(self) -> None:
        """Start the thread."""
        self._loop.start()

    def close(self) -> None:
        """End the thread."""
        self._loop.stop()
        self._bus.publish_here(UPSTREAM_SIGN_INS_CHANGED)
        self._loop.join(CLOSE_SECONDS)

    def _run(self) -> float:
        with self._bus.subscribe([UPSTREAM_SIGN_INS_CHANGED, ACCESS_ENDED]) as mailbox:
            while not (self._loop.ending.is_set() or mailbox.closed):
                self._end_outdated()
                mailbox.get(LOOK_SECONDS)
        return LOOK_SECONDS
