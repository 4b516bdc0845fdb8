"""The files and folders of the watched folder that are not servers, each with the reason.

A folder is in the list when it looks like a program. Other folders hold scripts, apps and documents of servers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from patchbay.catalogue.watching.settling import ending_of, is_temporary
from patchbay.kind import known_kinds

MAX_FILES = 100
"""Files in the list, at most."""

PROGRAM_FILES = (
    *("pyproject.toml", "requirements.txt", "__init__.py", "__main__.py", "main.py", "server.py", "app.py"),
    *("package.json", "index.js", "index.ts", "server.js", "server.ts", "go.mod", "Cargo.toml", "Dockerfile"),
)
"""Files by which a folder looks like a program."""


def list_unserved_files(folder: Path, refused: Mapping[str, str]) -> dict[str, str]:
    """Return up to MAX_FILES names with reasons: the `refused` files, files of other endings, folders with programs.

    Hidden and temporary files are left out, and so are other folders.
    """
    endings = sorted({ending for kind in known_kinds() for ending in kind.endings})
    reason = f"expected a name that ends with {', '.join(endings[:-1])} or {endings[-1]}"
    try:
        with os.scandir(folder) as entries:
            seen = sorted((one.name, one.is_file()) for one in entries if not is_temporary(one.name))
    except OSError:
        seen = []
    others = {name: reason for name, is_file in seen if is_file and ending_of(name) not in endings}
    folders = [name for name, is_file in seen if not is_file][:MAX_FILES]
    programs = {name: _describe_program(name) for name in folders if _is_program(folder / name)}
    found = {**dict(sorted(refused.items())), **others, **programs}
    return dict(list(found.items())[:MAX_FILES])


def _is_program(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (*PROGRAM_FILES, f"{folder.name}.py"))


def _describe_program(name: str) -> str:
    return (
        "a folder is no server. To serve a program that is in it, move the folder elsewhere and mount the command line"
        f" that starts the program: patchbay mount {quote(name)} -- COMMAND"
    )
