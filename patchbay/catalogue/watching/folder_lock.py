"""The lock of a watched folder: its editor and its watcher change files and names one after the other."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Serialize changes of the files of a folder over all processes and threads.

    Without the folder, and on a file system that does not lock folders, nothing is serialized.

    A file and the names of its server cannot change in one transaction: without the lock, an editor could compare names
    while the watcher moves them, and the watcher could move names back to a file that an editor has replaced since it
    was read. Source: flock(2), which locks folders too.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as problem:
            # NFS locks no folder that is open for reading, and a folder cannot be opened for writing.
            log.debug("changes of %s are not serialized: %s", folder, problem.strerror)
        yield
    finally:
        os.close(descriptor)
