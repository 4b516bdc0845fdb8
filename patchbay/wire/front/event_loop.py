"""The event loop of a worker: one thread for all waiting streams and WebSockets.

The main thread belongs to the web server and to the signals of the process, so the loop has a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)

CALLS_AT_ONCE = 64
"""Callbacks of other threads that run before the loop looks at its connections again."""


class EventLoop:
    """An asyncio loop that runs to the end of the process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._waiting: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_woken = False
        threading.Thread(target=self._loop.run_forever, name="front", daemon=True).start()

    def call(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a callback on the loop soon, after the earlier ones; from any thread.

        Waking the loop is a system call, so callbacks that come while it is being woken wake it once.
        """
        self._waiting.append((callback, arguments))
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._run)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Run a callback on the loop after so many seconds; from any thread."""
        self.call(self._loop.call_later, seconds, callback)

    def _run(self) -> None:
        self._is_woken = False  # a callback that is added after this line wakes the loop again
        for _ in range(min(len(self._waiting), CALLS_AT_ONCE)):
            callback, arguments = self._waiting.popleft()
            try:
                callback(*arguments)
            except Exception:
                log.exception("a callback of the event loop failed")
        if self._waiting and not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._run)
