"""Interrupts: `Stopped` is raised in the thread of a tool whose call has ended.

Python raises an exception from another thread at any instruction. When that instruction is part of a finalizer (the
garbage collector runs them on any thread), Python reports the exception to `sys.unraisablehook` and drops it, and the
tool goes on. The hook here sees these reports, and the code that interrupted the thread does it again.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


class Stopped(SystemExit):
    """Raised in a tool whose call has ended. `except Exception` does not catch it, and a thread that it ends logs
    nothing.
    """


def raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raise an exception in a thread at its next Python instruction; None cancels a pending one."""
    if kind is not None:
        _LOST.watch()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(kind) if kind is not None else None
    )


def when_lost(again: Callable[[], None]) -> None:
    """Register `again`, which another thread calls after a finalizer on this thread has dropped a `Stopped`."""
    _this_thread.again = again


class _LostInterrupts:
    """The hook that sees dropped exceptions, and the thread that repeats them.

    A finalizer can run while its thread holds any lock: the hook only puts a function into a queue.
    """

    def __init__(self) -> None:
        self._lost: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.RLock()
        self._previous: Callable[[UnraisableHookArgs], Any] | None = None
        self._thread: threading.Thread | None = None

    def watch(self) -> None:
        """Set the hook and start the thread, unless both are there; a forked process has no thread of its parent."""
        with self._lock:
            if self._previous is None:
                self._previous, sys.unraisablehook = sys.unraisablehook, self._see
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._repeat, name="lost interrupts", daemon=True)
                self._thread.start()

    def _see(self, report: UnraisableHookArgs) -> None:
        if not issubclass(report.exc_type, Stopped):
            assert self._previous is not None
            self._previous(report)
        elif (again := getattr(_this_thread, "again", None)) is not None:
            self._lost.put(again)

    def _repeat(self) -> None:
        while True:
            self._lost.get()()


_this_thread = threading.local()
_LOST = _LostInterrupts()
