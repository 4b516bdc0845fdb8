"""Locks on the data folder, so that two hubs with different settings never change one store.

Every process that opens the store shares the folder with processes of the same settings; `patchbay serve` also claims
the folder, which only one running hub can do. The operating system releases both locks with the process, also after
`kill -9`.
Source: flock(2).
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
"""Limit on the bytes that are read of the note of a lock's holder."""


class FolderLock:
    """A lock on a file of the data folder, held until `close`."""

    def __init__(self, folder: Path, file: str) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._descriptor = os.open(folder / file, os.O_RDWR | os.O_CREAT, 0o600)

    def try_lock(self, how: int) -> bool:
        """Try to take the lock as LOCK_EX or LOCK_SH without waiting; return whether it is held."""
        try:
            fcntl.flock(self._descriptor, how | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            return False
        return True

    def share(self) -> None:
        """Take the lock together with others; wait while another process writes its note."""
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def note(self) -> dict[str, Any]:
        """Return the note of the holder; empty if it is unreadable."""
        try:
            value = orjson.loads(os.pread(self._descriptor, MAX_NOTE_BYTES, 0))
        except orjson.JSONDecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    def write(self, note: Mapping[str, Any]) -> None:
        """Write a note for processes that find the lock taken. Raises FolderInUse for a disk without room."""
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, orjson.dumps({**note, "process": os.getpid()}), 0)
        except OSError as problem:
            raise FolderInUse(
                f"the data folder {self._folder} cannot be written: {problem.strerror}; free space on its disk"
                " (`patchbay doctor` says how), or use another folder (--data)"
            ) from problem

    def close(self) -> None:
        """Release the lock in this process; forked processes keep it. Closing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def claim_folder(folder: Path, note: Mapping[str, Any] | None = None) -> FolderLock:
    """Claim the data folder for one running hub; `note` tells other processes where it listens. Raises FolderInUse."""
    lock = _open_lock(folder, CLAIMED)
    if not lock.try_lock(fcntl.LOCK_EX):
        found = lock.note()
        lock.close()
        place = f" at {found['url']}" if isinstance(found.get("url"), str) else ""
        raise FolderInUse(
            f"the data folder {folder} is in use by another hub{place} (process {found.get('process', 'unknown')}):"
            " `patchbay open` shows that hub; stop it, or start this one with another folder (--data)"
        )
    lock.write(note or {})
    return lock


def is_claimed(folder: Path) -> bool:
    """Whether a running hub has claimed the data folder. False for a folder that cannot be read."""
    try:
        descriptor = os.open(folder / CLAIMED, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_note(folder: Path, file: str) -> dict[str, Any]:
    """Return the note of the last holder of a lock, also when it has ended; empty without one. Takes no lock."""
    try:
        data = (folder / file).read_bytes()[:MAX_NOTE_BYTES]
        value = orjson.loads(data)
    except (OSError, orjson.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def share_folder(folder: Path, served: Mapping[str, str]) -> FolderLock:
    """Share the data folder with every process that has the same settings in `served`.

    Raises FolderInUse while a process with other settings uses the folder.
    """
    lock = _open_lock(folder, SHARED)
    if lock.try_lock(fcntl.LOCK_EX):
        lock.write(served)
    lock.share()
    note = lock.note()
    noted = {name: note.get(name) for name in served}
    if noted != dict(served):
        lock.close()
        options = " ".join(f"--{name} {value}" for name, value in noted.items())
        raise FolderInUse(
            f"the data folder {folder} is in use by another hub (process {note.get('process', 'unknown')}: {options});"
            " start this one with the same settings, or with another folder (--data)"
        )
    return lock


def _open_lock(folder: Path, file: str) -> FolderLock:
    try:
        return FolderLock(folder, file)
    except OSError as problem:
        raise FolderInUse(
            f"the data folder {folder} cannot be locked: {problem.strerror}; make it writable, or use another folder"
            " (--data)"
        ) from problem
