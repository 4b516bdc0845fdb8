"""End a command when the reader of its output is gone, even while the command waits for a server.

Writing to a closed pipe fails by itself, but a waiting command does not write. A thread watches the pipe. When the
reader closes it, the thread interrupts the main thread with SIGPIPE, and repeats the signal, because an exception can
be lost in a callback.
"""

from __future__ import annotations

import math
import os
import select
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

REPEAT_SECONDS = 10.0
"""Seconds between two interruptions."""


class BrokenOutputPipe(BrokenPipeError):
    """The reader of standard output is gone."""


@contextmanager
def watch_output() -> Iterator[None]:
    """Raise BrokenOutputPipe in the block when the reader of standard output closes it.

    Without effect when standard output is not a pipe, and outside the main thread.
    """
    descriptor = _output_pipe()
    if descriptor is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    wake_reader, wake_writer = os.pipe()
    before = signal.signal(signal.SIGPIPE, _Interruption())
    main = threading.get_ident()
    watcher = threading.Thread(target=_watch, args=(descriptor, wake_reader, main), name="unread", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        os.close(wake_writer)
        if not sys.is_finalizing():  # a block that was never left ends with the interpreter, which ended the thread
            watcher.join()
        signal.signal(signal.SIGPIPE, before)
        os.close(wake_reader)


def discard_output() -> None:
    """Redirect standard output to the null device; otherwise the interpreter flushes to a closed pipe at its end."""
    with suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def _output_pipe() -> int | None:
    try:
        descriptor = sys.stdout.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError, AttributeError):
        return None
    return descriptor if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None


def _watch(descriptor: int, wake_reader: int, main: int) -> None:
    poll, finished = select.poll(), select.poll()
    poll.register(descriptor, 0)
    poll.register(wake_reader, select.POLLIN)
    finished.register(wake_reader, select.POLLIN)
    if any(found == descriptor for found, _ in poll.poll()):
        signal.pthread_kill(main, signal.SIGPIPE)
        while not finished.poll(REPEAT_SECONDS * 1000):
            signal.pthread_kill(main, signal.SIGPIPE)


class _Interruption:
    """A signal handler that raises BrokenOutputPipe, at most once per REPEAT_SECONDS.

    It does not raise while a failed write or Ctrl-C ends the command, because that would interrupt the cleanup: the end
    of the reader causes both the failed write and the signal.
    """

    def __init__(self) -> None:
        self._last = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if isinstance(sys.exception(), BrokenPipeError | KeyboardInterrupt):
            return
        now = time.monotonic()
        if now - self._last >= REPEAT_SECONDS * 0.9:  # the timers of the two threads differ slightly
            self._last = now
            raise BrokenOutputPipe
