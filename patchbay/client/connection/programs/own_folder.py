"""Paths of a command line that is relative to one folder, for a program that starts in another one.

A confined program starts in its own folder. A script, or a file, that its command line names relative to the folder in
which the hub or the command runs is meant there, so it is written in full.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePath

from patchbay.client.addresses.targets import Stdio
from patchbay.processes.confinement.programs import is_there


def fix_paths(target: Stdio, folder: Path) -> Stdio:
    """Return a target whose relative paths of existing files and folders are absolute.

    A word is a path if it contains a slash, has a file ending, or is `.` or `..`; a plain word such as `docs` may be a
    command of the program, also where a folder has this name.
    """
    base = folder / target.cwd if target.cwd else folder
    args = tuple(_fix(word, base) for word in target.args)
    command = str(base / target.command) if "/" in target.command else target.command
    return replace(target, command=command, args=args, cwd=str(base) if target.cwd else None)


def _fix(word: str, base: Path) -> str:
    name, equals, value = word.partition("=")
    if equals and name.startswith("-"):
        return f"{name}={_fix(value, base)}"
    looks_like_path = "/" in word or word in (".", "..") or bool(PurePath(word).suffix)
    is_relative = bool(word) and not word.startswith(("-", "/", "~", "@")) and "://" not in word
    return str((base / word).absolute()) if looks_like_path and is_relative and is_there(base / word) else word
