"""The drain: how a worker that was asked to end lets its callers finish.

The web server waits for open responses, and an endless stream never closes by itself. So every
worker notices the signal on its own: readiness turns off, streams that only listen end themselves,
running calls go on until the time is over. This file knows no server, no stream and no call: they ask.
Sources: THREATS M4, M5, X22; DESIGN section 6 (deadlines use the monotonic clock).
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""What ends a worker."""

NEVER = float("inf")
"""Seconds that are left before the drain begins."""


class Drain:
    """Begins once, from any thread, and is over `seconds` later. Tests call `begin`; workers call `watch_signals`."""

    def __init__(self, seconds: float = 25.0) -> None:
        self.seconds = seconds
        self._begun = threading.Event()
        self._end = NEVER
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def begun(self) -> bool:
        """Whether the worker is ending: not ready for new work, listeners close."""
        return self._begun.is_set()

    @property
    def over(self) -> bool:
        """Whether running calls have had their time."""
        return self.left() == 0.0

    def left(self) -> float:
        """Seconds that running calls still have: infinite before the drain begins, never negative."""
        return max(0.0, self._end - time.monotonic()) if self._begun.is_set() else NEVER

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds (None: for ever) for the drain to begin; whether it has."""
        return self._begun.wait(timeout)

    def on_begin(self, callback: Callable[[], None]) -> None:
        """Call this when the drain begins, or now when it has begun.

        Callbacks run on the thread that begins the drain and must neither block nor raise: they wake others up.
        """
        with self._lock:
            waiting = not self.begun
            if waiting:
                self._callbacks.append(callback)
        if not waiting:
            callback()

    def begin(self) -> None:
        """Begin; a second time does nothing."""
        with self._lock:
            if self.begun:
                return
            self._end = time.monotonic() + self.seconds
            self._begun.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def watch_signals(self) -> None:
        """Begin at SIGTERM or SIGINT, beside whatever handler the web server installs. Main thread only.

        A wake-up descriptor is written by the interpreter itself, so it works whichever handler is set later.
        """
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        watcher = threading.Thread(target=self._watch, args=(reader, writer), name="drain", daemon=True)
        watcher.start()

    def _watch(self, reader: socket.socket, writer: socket.socket) -> None:
        # Reads on after the first signal: the interpreter goes on writing, so both ends stay open to the end.
        with reader, writer:
            while received := reader.recv(64):
                if any(number in SIGNALS for number in received):
                    self.begin()
