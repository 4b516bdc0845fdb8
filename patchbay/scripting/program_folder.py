"""The temporary folder of the programs of one pool. A start removes the folders of hubs that have died.

A folder has a file that its process holds locked, and the system releases the lock when the process dies.
Source: flock(2).
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp

PREFIX = "patchbay-scripts-"
LOCK = "lock"

_STARTING = "patchbay-starting-"
"""Begins the name of a folder until its lock is held, so that no other start takes it for one of a dead hub."""


class ProgramFolder:
    """A temporary folder that is locked until `close`, which removes it."""

    def __init__(self) -> None:
        parent = Path(gettempdir())
        remove_leftovers(parent)
        starting = Path(mkdtemp(prefix=_STARTING, dir=parent))
        self._lock = os.open(starting / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = starting.rename(parent / starting.name.replace(_STARTING, PREFIX, 1))

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_leftovers(parent: Path) -> None:
    """Remove the folders here whose process is dead: those of the same user whose lock is free."""
    for folder in parent.glob(f"{PREFIX}*"):
        # Another user may remove its folder in between, or have made one with this name.
        with suppress(OSError):
            if folder.lstat().st_uid == os.geteuid() and _is_free(folder / LOCK):
                shutil.rmtree(folder, ignore_errors=True)


def _is_free(lock: Path) -> bool:
    """Whether the lock of a folder is held by no process. Raises OSError for a folder without one."""
    descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
