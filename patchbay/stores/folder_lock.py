"""Locks on the data folder, so that two hubs that differ never change one store.

Rules: every process that opens the store shares the folder, and has to say the same of what it serves; `patchbay serve`
also claims the folder, which one running hub can do. The operating system ends both with the process, also after
`kill -9`.
Sources: flock(2); issue 11, item 13.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from patchbay.errors import FolderInUse

SHARED = "hub.lock"
CLAIMED = "serve.lock"

MAX_NOTE_BYTES = 64 * 1024
"""Bytes that are read of what the holder of a lock wrote about itself."""


class FolderLock:
    """A lock on a file of the data folder, held until `close`."""

    def __init__(self, folder: Path, file: str) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._descriptor = os.open(folder / file, os.O_RDWR | os.O_CREAT, 0o600)

    def take(self, how: int) -> bool:
        """Take the lock as LOCK_EX or LOCK_SH without waiting; whether it is held now."""
        try:
            fcntl.flock(self._descriptor, how | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            return False
        return True

    def share(self) -> None:
        """Take the lock together with others; wait while one of them writes its note."""
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def note(self) -> dict[str, Any]:
        """What the holder wrote about itself; empty when that cannot be read."""
        try:
            value = orjson.loads(os.pread(self._descriptor, MAX_NOTE_BYTES, 0))
        except orjson.JSONDecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    def write(self, note: Mapping[str, Any]) -> None:
        """Leave a note for those who find the lock held."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, orjson.dumps({**note, "process": os.getpid()}), 0)

    def close(self) -> None:
        """End the lock in this process; processes that were forked keep theirs. Closing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def claim_folder(folder: Path) -> FolderLock:
    """Claim the data folder for one running hub. Raises FolderInUse."""
    lock = _opened(folder, CLAIMED)
    if not lock.take(fcntl.LOCK_EX):
        process = lock.note().get("process", "unknown")
        lock.close()
        raise FolderInUse(
            f"the data folder {folder} is in use by another hub (process {process}): stop that one, or give this one"
            " a folder of its own with --data"
        )
    lock.write({})
    return lock


def share_folder(folder: Path, served: Mapping[str, str]) -> FolderLock:
    """Share the data folder with every process that serves the same, by the settings in `served`.

    Raises FolderInUse while another process serves something else from it.
    """
    lock = _opened(folder, SHARED)
    if lock.take(fcntl.LOCK_EX):
        lock.write(served)
    lock.share()
    note = lock.note()
    there = {name: note.get(name) for name in served}
    if there != dict(served):
        lock.close()
        options = " ".join(f"--{name} {value}" for name, value in there.items())
        raise FolderInUse(
            f"the data folder {folder} is in use by another hub (process {note.get('process', 'unknown')}: {options});"
            " start this one with the same settings, or with a folder of its own with --data"
        )
    return lock


def _opened(folder: Path, file: str) -> FolderLock:
    try:
        return FolderLock(folder, file)
    except OSError as problem:
        raise FolderInUse(f"the data folder {folder} cannot be locked: {problem.strerror}") from problem
