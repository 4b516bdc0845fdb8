"""An end for a command whose output nobody reads any more, even while it waits for a server.

Writing to a closed pipe fails by itself; but a command that waits writes nothing. So a thread watches the pipe, and
when its reader is gone the main thread is interrupted; again after a while, because what is raised in a thread can be
lost (in a callback, say). Sources: J-F9 (`head` ends its producer).
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

AGAIN = 10.0
"""Seconds that ending may take before it is interrupted too."""


class BrokenOutputPipe(BrokenPipeError):
    """Nobody reads standard output any more."""


@contextmanager
def watched_output() -> Iterator[None]:
    """While the block runs, raise Unread in it as soon as the reader of standard output is gone.

    Does nothing where standard output is no pipe, or outside the main thread.
    """
    descriptor = _pipe()
    if descriptor is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    ear, mouth = os.pipe()
    before = signal.signal(signal.SIGPIPE, _Interruption())
    main = threading.get_ident()
    watcher = threading.Thread(target=_watch, args=(descriptor, ear, main), name="unread", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        os.close(mouth)
        watcher.join()
        signal.signal(signal.SIGPIPE, before)
        os.close(ear)


def let_go() -> None:
    """Keep the interpreter from flushing to a pipe that nobody reads when it ends."""
    with suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def _pipe() -> int | None:
    try:
        descriptor = sys.stdout.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError, AttributeError):
        return None
    return descriptor if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None


def _watch(descriptor: int, ear: int, main: int) -> None:
    poll, over = select.poll(), select.poll()
    poll.register(descriptor, 0)
    poll.register(ear, select.POLLIN)
    over.register(ear, select.POLLIN)
    if any(found == descriptor for found, _ in poll.poll()):
        signal.pthread_kill(main, signal.SIGPIPE)
        while not over.poll(AGAIN * 1000):
            signal.pthread_kill(main, signal.SIGPIPE)


class _Interruption:
    """What a signal does: it raises Unread, once in so many seconds, whoever sends it how often."""

    def __init__(self) -> None:
        self._last = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._last >= AGAIN * 0.9:  # the clocks of the two threads need not agree to the last digit
            self._last = now
            raise BrokenOutputPipe
