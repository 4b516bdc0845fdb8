"""A file in the data folder that takes up disk space, so that `patchbay gc` has room to work when the disk is full.

Deleting contents writes to the log of the database first, and a full disk would refuse that; so it would refuse to open
the database. `serve` makes the file; `gc` and a start on a full disk remove it, and make it again when there is room.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

FULL_DISK = "the disk of %s is full: the hub uses the space that it had reserved; free more, `patchbay doctor` says how"

log = logging.getLogger(__name__)

FILE = "reserve"
RESERVE_BYTES = 4 * 1024 * 1024
"""Bytes of the file: more than a short transaction and the files beside the database need."""

FEW_DISK_BYTES = 500 * 1024 * 1024
"""Free bytes of the disk below which a warning is due."""


def keep_reserve(folder: Path) -> bool:
    """Make the file if it is absent and the disk has room for it twice; return whether it exists."""
    path = folder / FILE
    try:
        if path.exists():
            return True
        if shutil.disk_usage(folder).free < 2 * RESERVE_BYTES:
            return False
        with path.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            # Random bytes: a file system that compresses would reserve nothing for zeros.
            file.write(os.urandom(RESERVE_BYTES))
    except OSError as problem:
        log.warning("no space is reserved in %s for `patchbay gc`: %s", folder, problem.strerror)
        path.unlink(missing_ok=True)
        return False
    return True


def release_reserve(folder: Path) -> bool:
    """Remove the file if the disk has less room than it takes; return whether it was removed."""
    path = folder / FILE
    if not folder.is_dir() or not path.exists() or shutil.disk_usage(folder).free >= RESERVE_BYTES:
        return False
    path.unlink()
    return True
