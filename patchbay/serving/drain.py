"""The drain: a stopping worker lets its running calls finish for a limited time.

The web server waits for open responses, and a listening stream never ends by itself. So every worker watches the
signals itself: readiness turns off, listening streams end, and running calls continue until the time is over. This
module knows no servers, streams and calls: they ask it.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""The signals that stop a worker."""

NEVER = float("inf")
"""Seconds that are left before the drain begins."""


class Drain:
    """The drain of a worker: begins once, from any thread, and ends `seconds` later.

    Tests call `begin`; workers call `watch_signals`.
    """

    def __init__(self, seconds: float = 25.0) -> None:
        self.seconds = seconds
        self._begun = threading.Event()
        self._end = NEVER
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_draining(self) -> bool:
        """Whether the worker stops: it is not ready for new calls, and listening streams end."""
        return self._begun.is_set()

    @property
    def over(self) -> bool:
        """Whether the time for running calls is over."""
        return self.seconds_left() == 0.0

    def seconds_left(self) -> float:
        """Return the seconds that running calls still have: infinite before the drain begins, never negative."""
        return max(0.0, self._end - time.monotonic()) if self._begun.is_set() else NEVER

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds (None: without a limit) for the drain to begin; return whether it has begun."""
        return self._begun.wait(timeout)

    def on_begin(self, callback: Callable[[], None]) -> None:
        """Call the callback when the drain begins, or at once if it has begun.

        Callbacks run on the thread that begins the drain and must not block or raise: they only wake other threads.
        """
        with self._lock:
            waiting = not self.is_draining
            if waiting:
                self._callbacks.append(callback)
        if not waiting:
            callback()

    def begin(self) -> None:
        """Begin the drain; a second call does nothing."""
        with self._lock:
            if self.is_draining:
                return
            self._end = time.monotonic() + self.seconds
            self._begun.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def watch_signals(self) -> None:
        """Begin at SIGTERM or SIGINT, in addition to the handlers of the web server. Main thread only.

        The interpreter itself writes to the wake-up descriptor, so this works with every later handler.
        """
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        watcher = threading.Thread(target=self._watch, args=(reader, writer), name="drain", daemon=True)
        watcher.start()

    def _watch(self, reader: socket.socket, writer: socket.socket) -> None:
        # Keep reading after the first signal: the interpreter still writes, so both ends must stay open.
        with reader, writer:
            while received := reader.recv(64):
                if any(number in SIGNALS for number in received):
                    self.begin()
