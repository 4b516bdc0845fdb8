"""The regular files of the watched folder that may be servers, and where its links lead."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from operator import attrgetter
from pathlib import Path

from patchbay.catalogue.watching.links import resolve_inside
from patchbay.catalogue.watching.settling import Signature, ending_of, is_temporary
from patchbay.kind import known_kinds

MAX_FILE_BYTES = 1024 * 1024
"""Maximum bytes of a file that is read."""

MAX_READINGS = 3
"""How often a folder is read again while links in it change."""


def list_files(folder: Path, refused: dict[str, str]) -> tuple[dict[str, Signature], dict[str, Path]]:
    """Return the regular files of a folder that may be servers with a signature that shows a change, and its links.

    The links are names with the files that they lead to. Reasons of files that cannot be used are added to `refused`.
    Where a link leads elsewhere at the end, all are read again: one changed link may bring many files, and they count
    as one change. Raises OSError when the folder cannot be read; a missing folder has no files.
    """
    for _ in range(MAX_READINGS):
        found: dict[str, str] = {}
        links: dict[str, Path] = {}
        files = _read_names(folder, found, links)
        with suppress(OSError):
            if all(resolve_inside(folder, file) == target for file, target in links.items()):
                break
    refused |= found
    return files, links


def _read_names(folder: Path, refused: dict[str, str], links: dict[str, Path]) -> dict[str, Signature]:
    """Return the files as `list_files` returns them; add to `refused` and `links`."""
    files: dict[str, Signature] = {}
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=attrgetter("name"))
    except FileNotFoundError:
        return files
    endings = {ending for kind in known_kinds() for ending in kind.endings}
    for entry in listed:
        if ending_of(entry.name) not in endings or is_temporary(entry.name):
            continue
        try:
            if not entry.is_symlink():
                found = entry.stat()
            elif (target := resolve_inside(folder, entry.name)) is not None:
                links[entry.name], found = target, target.stat()
            else:
                refused[entry.name] = "expected a regular file, or a link to one in this folder; it leads out of it"
                continue
        except OSError as problem:
            refused[entry.name] = f"it cannot be read: {problem.strerror}"
            continue
        if not stat.S_ISREG(found.st_mode):
            refused[entry.name] = "expected a regular file in this folder"
        elif found.st_size > MAX_FILE_BYTES:
            refused[entry.name] = f"expected at most {MAX_FILE_BYTES} bytes; it has {found.st_size}"
        else:
            files[entry.name] = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
    return files
