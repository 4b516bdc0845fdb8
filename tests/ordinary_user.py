"""Programs that root runs as an ordinary user, with a home folder of its own; and mounts that only a program sees."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.databases import ORDINARY_USER

OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private")
"""Around a program of root: what it mounts, or removes, changes nothing for the machine."""

_SHOW_PYTHON = (
    'mkdir "$1" && mount --bind "$2" "$1" && mount -t tmpfs -o mode=755 none "$HOME_OF_ROOT" && mkdir -p "$2"'
    ' && mount --bind "$1" "$2" && shift 2 && exec "$@"'
)
"""Lets an ordinary user run a Python that is installed in the home folder of root; only this program sees it so."""


def around_ordinary_user(folder: Path) -> tuple[Sequence[str], dict[str, str]]:
    """Return the command line that makes a program of root one of an ordinary user, and more variables for it.

    `folder` is an existing folder of root, in which nothing is called `python`.
    """
    if not Path(sys.base_prefix).is_relative_to(Path.home()):
        return ORDINARY_USER, {}
    words = (*OWN_MOUNTS, "sh", "-c", _SHOW_PYTHON, "sh", str(folder / "python"), sys.base_prefix, *ORDINARY_USER)
    return words, {"HOME_OF_ROOT": str(Path.home())}


def give_to_ordinary_user(folder: Path) -> None:
    """Give a folder with everything in it to the ordinary user."""
    for place in (folder, *folder.rglob("*")):
        shutil.chown(place, "nobody", "nogroup")
