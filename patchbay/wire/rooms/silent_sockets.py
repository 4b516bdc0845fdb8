"""WebSockets that have not said hello: they end when the credentials of their senders do.

A WebSocket with a session ends with the session, whose room looks at its rights. One without a session holds a place of
its sender, so that it must not stay either.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from patchbay.access.credentials.validity import RECHECK_SECONDS
from patchbay.access.principals import Principal
from patchbay.background import BackgroundLoop
from patchbay.store import Bus, Subscription
from patchbay.topics import ACCESS_ENDED

log = logging.getLogger(__name__)


class Silent(Protocol):
    """A WebSocket without a session."""

    @property
    def sender(self) -> Principal:
        """Who opened it."""
        ...

    def end_revoked(self) -> None:
        """Close the WebSocket, because the credentials of its sender are no longer valid. Thread-safe."""
        ...


class SilentSockets:
    """Watches WebSockets on one thread, which runs while there are any. Safe to use from many threads.

    `is_current` says whether the credentials of a sender are still valid.
    """

    def __init__(self, bus: Bus, is_current: Callable[[Principal], bool]) -> None:
        self._bus = bus
        self._is_current = is_current
        self._sockets: set[Silent] = set()
        self._news: Subscription | None = None
        self._lock = threading.Lock()
        self._loop = BackgroundLoop("silent sockets", self._watch, "the silent WebSockets are checked again")

    def add(self, socket: Silent) -> None:
        """Watch a WebSocket until `discard`; one whose credentials have ended already is closed at once."""
        with self._lock:
            self._sockets.add(socket)
            if self._news is None:
                # Subscribe before the thread runs, so that no end comes in between.
                self._news = self._bus.subscribe([ACCESS_ENDED])
            self._loop.start()
        self._check(socket)

    def discard(self, socket: Silent) -> None:
        """Stop watching a WebSocket: it has a session, or it is closed."""
        with self._lock:
            self._sockets.discard(socket)

    def _watch(self) -> float | None:
        news = self._news
        if news is None:
            return None
        news.get(RECHECK_SECONDS)
        with self._lock:
            sockets = list(self._sockets)
            if not sockets or news.closed:
                news.close()
                self._news = None
                return None
        for socket in sockets:
            self._check(socket)
        return 0.0

    def _check(self, socket: Silent) -> None:
        try:
            if not self._is_current(socket.sender):
                self.discard(socket)
                socket.end_revoked()
        except Exception:
            log.exception("the credentials of a WebSocket could not be checked; the next round tries again")
