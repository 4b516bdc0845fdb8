"""Leftovers of a call in its worker: files in the working folder, children, open descriptors."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def empty_folder(folder: Path) -> None:
    """Remove everything in a working folder. A file that cannot be removed goes with the worker."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with suppress(OSError):
                    os.unlink(entry.path)  # noqa: PTH108 (a name, no path)


def has_children() -> bool:
    """Whether a child still runs; children that have ended are reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def open_descriptors() -> int:
    """Estimate the number of open descriptors by the lowest free number."""
    lowest = os.dup(1)
    os.close(lowest)
    return lowest
