"""The files of the watched folder that are not servers, each with the reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from patchbay.catalogue.watching.settling import ending_of, is_temporary
from patchbay.kind import known_kinds

MAX_FILES = 100
"""Files in the list, at most."""


def list_unserved_files(folder: Path, refused: Mapping[str, str]) -> dict[str, str]:
    """Return up to MAX_FILES names of files with reasons: the `refused` files, then files of other endings.

    Hidden and temporary files, and folders, are left out.
    """
    endings = sorted({ending for kind in known_kinds() for ending in kind.endings})
    reason = f"expected a name that ends with {', '.join(endings[:-1])} or {endings[-1]}"
    try:
        with os.scandir(folder) as entries:
            names = sorted(one.name for one in entries if one.is_file() and not is_temporary(one.name))
    except OSError:
        names = []
    others = {name: reason for name in names if ending_of(name) not in endings}
    found = {**dict(sorted(refused.items())), **others}
    return dict(list(found.items())[:MAX_FILES])
