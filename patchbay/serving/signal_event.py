"""An event that a signal handler may set at any moment.

`threading.Event.set` takes a lock. If the interrupted code holds this lock, a handler that calls `set` never returns.
`SimpleQueue.put` takes no such lock (https://docs.python.org/3/library/queue.html#simplequeue-objects).
"""

from __future__ import annotations

from queue import SimpleQueue


class SignalEvent:
    """Like `threading.Event`, for one thread that waits."""

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """Set the event, and wake the thread that waits."""
        self._is_set = True
        self._wakes.put(None)

    def clear(self) -> None:
        """Reset the event: the next `wait` waits."""
        self._is_set = False

    def wait(self) -> None:
        """Return when the event is set. Signal handlers run meanwhile."""
        while not self._is_set:
            self._wakes.get()
