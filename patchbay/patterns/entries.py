"""Patterns of entries of servers: `notes`, `notes.search`, `notes.*`, `*`, with the wildcards of a shell.

Grants, quotas and toolsets name what they are about with these patterns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache
from typing import Any

EVERYTHING = "*"
"""The pattern of every object, and the word for every principal."""

ROOM = "room."
"""How the name of a room's server begins."""


def covers(pattern: str, server: str, entry: str, fits_entry: Callable[[str, str], bool] | None = None) -> bool:
    """Whether a pattern covers an entry of a server; an empty `entry` stands for the server as a whole.

    `fits_entry` compares the entry part of a pattern with the entry; without it, as `fits` does. Grants and toolsets
    compare URIs by their spellings (`uri_spellings.py`).

    A pattern without a dot covers servers. A pattern with a dot is `server.entry`, split at any of its dots; it covers
    a server as a whole only when its entry part covers every entry, or when it is the name of that server.
    """
    if pattern.startswith(ROOM) and server.startswith(ROOM):
        pattern, server = pattern[len(ROOM) :], server[len(ROOM) :]
    if pattern == server:
        return True
    if "." not in pattern:
        return fits(pattern, server)
    fits_entry = fits_entry or fits
    return any(fits(of_server, server) and fits_entry(of_entry, entry) for of_server, of_entry in splits(pattern))


def splits(pattern: str) -> list[tuple[str, str]]:
    """Return the parts of a pattern or name, of the server and of the entry, for each dot at which it may be split."""
    dots = [place for place, letter in enumerate(pattern) if letter == "."]
    return [(pattern[:dot], pattern[dot + 1 :]) for dot in dots]


def names_server(pattern: str, server: str) -> bool:
    """Whether a pattern has the name of a server without wildcards, alone or before a dot."""
    return pattern == server or pattern.startswith(f"{server}.")


def fits(pattern: str, text: str) -> bool:
    """Whether a shell pattern (`*`, `?`, `[...]`) fits a whole text; upper and lower case differ."""
    return pattern in (EVERYTHING, text) or _compiled(pattern)(text) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    return re.compile(translate(pattern)).match
