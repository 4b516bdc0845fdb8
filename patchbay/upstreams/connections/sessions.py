"""Tells one mount which sessions of the hub have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from patchbay.store import Bus, Subscription
from patchbay.topics import SESSION_ENDED, SESSIONS


class EndedSessions:
    """The sessions of the hub that have ended, in any process. `wake` is called when there is one."""

    def __init__(self, bus: Bus, wake: Callable[[], None]) -> None:
        self._bus = bus
        self._wake = wake
        self._mailbox: Subscription | None = None
        self._is_waiting = False

    def take(self) -> Iterator[str]:
        """Give those that have ended since the last time, by their nonce; the first time, those from now on."""
        if self._mailbox is None:
            self._mailbox = self._bus.subscribe([f"{SESSIONS}*"])
        while True:
            while (message := self._mailbox.get(0)) is not None:
                if message[1] == SESSION_ENDED:
                    yield message[0].removeprefix(SESSIONS)
            if self._is_waiting or self._mailbox.call_when_ready(self._call):
                self._is_waiting = True
                return

    def _call(self) -> None:
        self._is_waiting = False
        self._wake()

    def close(self) -> None:
        """End the subscription."""
        if self._mailbox is not None:
            self._mailbox.close()
