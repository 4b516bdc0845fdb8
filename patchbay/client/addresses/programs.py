"""Which program a command line starts: its identity, a short name, and whether a launcher gets it from a registry."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import PurePath

from patchbay.client.addresses.targets import Stdio

LAUNCHERS = ("npx", "bunx", "pnpx", "uvx")
"""Programs that get a package and run it."""

_VERSION = re.compile(r"(?<=[\w\]])(@v?[0-9][\w.+-]*|@latest|==[\w.+!*-]+)$")
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_RELATIVE = re.compile(r"(?:^|[=:])\.{1,2}(?:/|$)")
_WITH_VALUE = frozenset(("--with", "--from", "--package", "-p", "--python", "--index", "--index-url"))
"""Options of launchers whose value names a package or its source."""

_SCRIPTS = frozenset((".py", ".js", ".mjs", ".cjs", ".ts", ".jar"))
_PLAIN_NAMES = frozenset(("mcp", "server", "mcp-server", "cli"))

MAX_NAME_CHARACTERS = 60


def identify_program(target: Stdio) -> str:
    """Return which program a target starts: its command line, without versions of the package that a launcher gets.

    An update keeps the folder of a confined program; another program under the same name gets another folder.
    """
    words = [_VERSION.sub("", word) if is_launched(target) else word for word in target.args]
    return "\0".join([target.cwd or "", target.command, *words])


def is_same_in_each_folder(target: Stdio) -> bool:
    """Whether a target starts the same program in every current folder: it names a package of a registry, not a file.

    A word such as `./server`, `--from=.` or `server.py` names what is in the current folder.
    """
    return is_launched(target) and not any(
        _RELATIVE.search(word) or (PurePath(word).suffix in _SCRIPTS and not word.startswith("/"))
        for word in target.args
    )


def is_launched(target: Stdio) -> bool:
    """Whether a launcher gets the program from a registry of packages."""
    name = PurePath(target.command).name
    return name in LAUNCHERS or (name == "uv" and "--with" in target.args)


def name_program(target: Stdio) -> str:
    """Return a short name of a program: that of the package or script, without a version; never a path or a value."""
    words = list(target.args)
    found = PurePath(target.command).name
    if is_launched(target):
        named = [after for before, after in pairwise(words) if before in _WITH_VALUE]
        plain = [word for word in words if not word.startswith("-") and word != "run"]
        found = (named or plain or [found])[0]
    else:
        found = next((word for word in words if not word.startswith("-") and PurePath(word).suffix in _SCRIPTS), found)
    whole = _VERSION.sub("", found.rstrip("/"))
    found = whole.rpartition("/")[2]
    if whole.startswith("@") and found in _PLAIN_NAMES:  # the scope says more: @playwright/mcp
        found = whole.removeprefix("@")
    return _NAME.sub("-", found).strip("-.")[:MAX_NAME_CHARACTERS] or "program"
