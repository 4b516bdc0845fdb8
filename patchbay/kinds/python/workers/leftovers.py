"""Leftovers of a call in its worker: files in the working folder, children, open descriptors."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

SETTLED_NS = 100_000_000
"""Nanoseconds after which the time of a change is surely another than that of the next change."""


def empty_folder(folder: Path) -> bool:
    """Remove everything in a working folder; return whether it was empty. A file that cannot be removed goes with the
    worker.
    """
    empty = True
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            empty = False
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with suppress(OSError):
                    os.unlink(entry.path)  # noqa: PTH108 (a name, no path)
    return empty


class WorkingFolder:
    """The folder in which each call begins, and which is empty then. A change of it is seen by its time (ctime)."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._clean = 0

    def enter(self) -> None:
        """Make it the working folder of this process."""
        try:
            os.chdir(self._path)
        except FileNotFoundError:  # the call before this one removed it
            os.mkdir(self._path)  # noqa: PTH102 (a name, no path)
            os.chdir(self._path)

    def empty(self) -> None:
        """Remove what is in it, if it has changed since it was last seen empty."""
        with suppress(OSError):
            changed = os.stat(self._path).st_ctime_ns  # noqa: PTH116 (a name, no path)
            if changed == self._clean:
                return
            # A change right after a look may bear the same time: only a time that has passed says that nothing changed.
            self._clean = changed if time.time_ns() - changed > SETTLED_NS else 0
            if not empty_folder(Path(self._path)):
                self._clean = 0


def has_children() -> bool:
    """Whether a child still runs; children that have ended are reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def has_threads() -> bool:
    """Whether the process has another thread of Python than this one: it may act between two calls."""
    return len(sys._current_frames()) > 1


def open_descriptors() -> int:
    """Estimate the number of open descriptors by the lowest free number."""
    lowest = os.dup(1)
    os.close(lowest)
    return lowest
