"""Symbolic links in the watched folder, which are followed to files inside it and never out of it.

Kubernetes mounts a ConfigMap as links: `notes.py` leads to `..data/notes.py`, and `..data` to a folder named after a
time. A new version of all files is one rename of `..data`.

Source: https://kubernetes.io/docs/concepts/configuration/configmap/#mounted-configmaps-are-updated-automatically
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW


def resolve_inside(folder: Path, file: str) -> Path | None:
    """Return where the link `file` of a folder leads, without links; None when that is outside of the folder.

    Raises OSError, also for links in a circle and for a link to a missing file.
    """
    try:
        target = (folder / file).resolve(strict=True)
    except RuntimeError as problem:  # Python 3.11 and 3.12 raise it for links in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from problem
    return target if target.is_relative_to(folder.resolve()) else None


def open_inside(folder: Path, file: str, target: Path | None = None) -> int:
    """Open a file of a folder for reading; return its descriptor.

    `target` is what `resolve_inside` returned for a link; without it a link is not followed. The opened file is then
    compared with the one at that path, so a folder on the way that became a link opens nothing outside. Raises OSError.
    """
    if target is None:
        return os.open(folder / file, _FLAGS)
    descriptor = os.open(target, _FLAGS)
    try:
        if target.resolve(strict=True) == target and os.path.samestat(os.fstat(descriptor), os.lstat(target)):
            return descriptor
    except (OSError, RuntimeError):
        pass  # it is refused below
    os.close(descriptor)
    raise OSError(errno.ESTALE, "the link changed while it was read")
