"""Which servers of the watched folder have complete files: two scans agree, and no program is writing them.

The files of one server (definition and configuration) count together, so that a definition is never served beside half
of its configuration or without it. A file that an editor removes and creates again is a change like any other.
Temporary and swap files of editors are ignored.

Source: fcntl(2), F_SETLEASE: a read lease is refused while the file is open for writing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePath

CONFIG_ENDING = ".mcp.json"
"""Ending of a configuration file beside a definition."""

SETTLED_SECONDS = 0.5
"""Seconds without a change after which a file needs no second scan when the hub starts."""

Signature = tuple[int, int, int, int]
"""Times of the last content change and of the last inode change, in nanoseconds; size in bytes; inode."""

_TEMPORARY = re.compile(r"[.~#]|__|.*(?:~|\.(?:tmp|swp|swx|bak|orig)(?:\.[0-9]+)*)\.", re.IGNORECASE)
"""Names of files that editors and other programs write beside the real ones."""


@lru_cache(maxsize=4096)
def is_temporary(file: str) -> bool:
    """Whether a name is that of a hidden file, a backup, or a temporary or swap file of an editor."""
    return bool(_TEMPORARY.match(file))


@lru_cache(maxsize=4096)
def ending_of(file: str) -> str:
    """Return the ending of a file's name with its dot, such as `.py`; empty without one."""
    return PurePath(file).suffix


@lru_cache(maxsize=4096)
def server_of(file: str) -> str:
    """Return the name of the server that a file belongs to."""
    return file.removesuffix(CONFIG_ENDING) if file.endswith(CONFIG_ENDING) else PurePath(file).stem


class ScanComparison:
    """Compares each scan of the folder with the one before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before: Mapping[str, Signature] | None = None
        self._pending: frozenset[str] = frozenset()

    def compare(self, files: Mapping[str, Signature]) -> frozenset[str]:
        """Return the names of the servers that wait for another scan; `files` are all present files."""
        before, self._before = self._before, files
        unconfirmed = self._pending
        if before is None:
            # A program may have begun to write a file before this process started, and pause.
            unconfirmed = frozenset(map(server_of, files))
            since = time.time_ns() - int(SETTLED_SECONDS * 1e9)
            changed = {server_of(file) for file, (_, changed, *_) in files.items() if changed > since}
        else:
            changed = {server_of(file) for file, _ in files.items() ^ before.items()}
        settled = unconfirmed - changed
        open_files = (file for file in files if server_of(file) in settled and self._is_written(file))
        written = set(map(server_of, open_files)) if settled else set()
        self._pending = frozenset(changed | written)
        return self._pending

    def _is_written(self, file: str) -> bool:
        """Whether a program has the file open for writing, as far as the system reports it (Linux, the user's own
        files).
        """
        try:
            descriptor = os.open(self._folder / file, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            # A program that opens the file in the meantime breaks the lease; the signal for that is one without effect.
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except AttributeError:  # a system without leases: two equal scans must be enough
            return False
        except OSError as problem:
            return problem.errno == errno.EAGAIN
        finally:
            os.close(descriptor)
        return False
