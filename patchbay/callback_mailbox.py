"""What every mailbox of a process does for a reader that waits without a thread (`patchbay.events.Mailbox`)."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable


class CallbackMailbox:
    """The callback of one reader, under the lock of the mailbox. Safe to use from many threads.

    Where something arrives, the mailbox takes the callback with the lock, and calls it.
    """

    __slots__ = ("_callback", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callback: Callable[[], None] | None = None

    @abstractmethod
    def _is_ready(self) -> bool:
        """Requires the lock. Return whether the reader has something to do now."""

    def call_when_ready(self, callback: Callable[[], None]) -> bool:
        """Call back once, from any thread, when there is a message or the end; False, and no call, when that is so now.

        The callback returns at once and takes no message.
        """
        with self._lock:
            if self._is_ready():
                return False
            self._callback = callback
            return True

    def cancel_call(self) -> bool:
        """Forget the callback; False when it was called, or is being called."""
        with self._lock:
            return self._take_callback() is not None

    def _take_callback(self) -> Callable[[], None] | None:
        """Requires the lock. Return the callback, which is not called by another thread then; None without one."""
        callback, self._callback = self._callback, None
        return callback
