"""The event loop of a worker: one thread on which everything waits that has nothing to do.

The main thread belongs to the web server and to the signals of the process, so the loop has a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)


class EventLoop:
    """An asyncio loop that runs from its first use to the end of the process."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def started(self) -> asyncio.AbstractEventLoop:
        """The loop, which runs."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="front", daemon=True).start()
            return self._loop

    def call(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run something on the loop soon; from any thread."""
        self.started().call_soon_threadsafe(callback, *arguments)
