"""Paths of a new profile that do not depend on the folder from which it is used later.

A path in an address is relative to the folder of the command. In a profile, the document of an API is an absolute path;
in a profile of a project it is relative to the profile's directory, so that it stays right in each checkout. A program
that is named by a relative path starts in the folder of the command.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchbay.client.addresses.targets import Stdio
from patchbay.client.source import get_scheme


def fix_document(fields: dict[str, Any], folder: Path, directory: Path | None) -> dict[str, Any]:
    """Return the `connection` of an API with the path of its document fixed.

    `folder` is that of the command; `directory` is that of a project's profile, None for a profile of the user. A URL,
    and a path that begins with a variable, stay.
    """
    document = str(fields.get("document", ""))
    if not document or get_scheme(document) in ("http", "https") or document.startswith("${"):
        return fields
    path = Path(os.path.normpath(folder / Path(document).expanduser()))
    if directory is not None and path.is_relative_to(folder):
        return {**fields, "document": os.path.relpath(path, directory)}
    return {**fields, "document": str(path)}


def fix_folder(target: Stdio, folder: Path) -> Stdio:
    """Return a program whose working folder is absolute; it is `folder` when a word is a path of a file in it."""
    if target.cwd is not None:
        return target if target.cwd.startswith("${") else replace(target, cwd=str(folder / target.cwd))
    is_relative = any(_is_relative_path(word, folder) for word in (target.command, *target.args))
    return replace(target, cwd=str(folder)) if is_relative else target


def _is_relative_path(word: str, folder: Path) -> bool:
    """Whether a word of a command line is the relative path of a file: it begins with a dot, or the file exists."""
    if word.startswith(("./", "../")):
        return True
    looks_like_path = "/" in word or Path(word).suffix != ""
    return looks_like_path and not word.startswith(("/", "-")) and "://" not in word and (folder / word).is_file()
