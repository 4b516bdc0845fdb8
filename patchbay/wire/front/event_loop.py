"""The event loop of a worker: one thread on which everything waits that has nothing to do.

The main thread belongs to the web server and to the signals of the process, so the loop has a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any


class EventLoop:
    """An asyncio loop that runs to the end of the process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="front", daemon=True).start()

    def call(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run something on the loop soon; from any thread."""
        self._loop.call_soon_threadsafe(callback, *arguments)
