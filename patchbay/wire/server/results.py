"""A result that comes later, for one callback."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_lock = threading.Lock()
"""Held for some steps in a callback's registration and in the arrival of a result, of any request."""


class Result:
    """A value, or the error in its place. The callback runs on the thread that brings it, or at once if it is there."""

    __slots__ = ("_callback", "_error", "_is_set", "_value")

    def __init__(self) -> None:
        self._callback: Callable[[Any], None] | None = None
        self._is_set = False
        self._value: Any = None
        self._error: BaseException | None = None

    def add_done_callback(self, callback: Callable[[Any], None], context: Any = None) -> None:
        """Call this with the result when it is there."""
        with _lock:
            if not self._is_set:
                self._callback = callback
                return
        callback(self)

    def result(self) -> Any:
        """Return the value, or raise the error."""
        if self._error is not None:
            raise self._error
        return self._value

    def cancel(self) -> bool:
        """Call nothing any more."""
        with _lock:
            self._callback = None
        return True

    def set(self, value: Any, error: BaseException | None = None) -> Callable[[], None] | None:
        """Set the value or the error; return what calls the callback, for a moment without locks. None for no call."""
        with _lock:
            if self._is_set:
                return None
            self._value, self._error, self._is_set = value, error, True
            callback, self._callback = self._callback, None
        return None if callback is None else lambda: callback(self)
