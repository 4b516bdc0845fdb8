"""The folders that the hub makes for a confined program: its own folder with its stores, and one for its /tmp.

A confined program may replace everything inside its own folder, for example a store by a link to a folder of the user.
The hub itself is not confined. So it follows no link there. The folders for /tmp, which it empties and removes, are
beside the own folders, where no program changes anything. The folder of a caller whose account has ended is removed as
a whole.

Sources: open(2) (O_NOFOLLOW), mkdirat(2); Python, shutil.rmtree (avoids_symlink_attacks).
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from patchbay.processes.process_trees import is_running

TMP_NAME = ".tmp"
"""The folder beside the own folders with what each process of a program sees as /tmp. No server has this name."""

ACCOUNT_MARK = ".account-"
"""Stands before the digest of the account in the name of a folder for the processes of one caller."""


class LinkedFolder(OSError):
    """A folder of a program is a link, or a file."""


def make_own_folder(own: Path, stores: Iterable[Path]) -> None:
    """Make the own folder of a program, and folders inside it. Raises LinkedFolder and OSError.

    A link in place of one of them is not followed.
    """
    for folder in reversed(own.parents):  # `parents=True` would let others read the folders above
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    for place in (own, *stores):
        _make_below(own.parent, place.relative_to(own.parent).parts)


def make_temporary_folder(own: Path) -> Path:
    """Make an empty folder for the /tmp of a process of the program with this own folder. Raises LinkedFolder, OSError.

    What processes left whose hub was killed is removed.
    """
    _make_below(own.parent, (TMP_NAME, own.name))
    folder = own.parent / TMP_NAME / own.name
    for left in folder.iterdir():
        owner = left.name.partition("-")[0]
        if not owner.isdecimal() or not is_running(int(owner)):
            remove_temporary_folder(left)
    return Path(mkdtemp(prefix=f"{os.getpid()}-", dir=folder))


def remove_temporary_folder(folder: Path) -> None:
    """Remove the folder that an ended program saw as /tmp; what cannot be removed stays."""
    shutil.rmtree(folder, ignore_errors=True)


def list_account_folders(own: Path) -> dict[str, Path]:
    """Return the folders of single callers of the program with this own folder, by the digest of the account."""
    found = own.parent.glob(f"{glob.escape(own.name)}{ACCOUNT_MARK}*")
    return {folder.name.removeprefix(f"{own.name}{ACCOUNT_MARK}"): folder for folder in found}


def remove_own_folder(own: Path) -> None:
    """Remove the own folder of a program whose processes have ended, and what they saw as /tmp.

    Links inside are removed and not followed; what cannot be removed stays.
    """
    for folder in (own, own.parent / TMP_NAME / own.name):
        shutil.rmtree(folder, ignore_errors=True)


def _make_below(top: Path, names: Iterable[str]) -> None:
    """Make folders inside one another, the first one in `top`."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor, place = os.open(top, flags), top
    try:
        for name in names:
            place /= name
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=descriptor)
            try:
                below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=descriptor)
            except NotADirectoryError as problem:
                reason = f"{place} is a link or a file, and the hub follows no link there: remove it"
                raise LinkedFolder(problem.errno, reason) from problem
            os.close(descriptor)
            descriptor = below
    finally:
        os.close(descriptor)
