"""Which of two versions of a package is newer, as far as both PEP 440 and Semantic Versioning order them.

The numbers of the release count first; of two equal releases, one with a suffix (`-alpha.1`, `rc1`) is older.
"""

from __future__ import annotations

import re

_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)(.*)")


def is_newer(newest: str, version: str) -> bool:
    """Whether `newest` is newer than `version`; True for a version that has no numbers, such as an empty text."""
    new, old = _RELEASE.fullmatch(newest), _RELEASE.fullmatch(version)
    if new is None or old is None:
        return newest != version
    numbers, before = (_numbers(found[1]) for found in (new, old))
    if numbers != before:
        return numbers > before
    return bool(old[2]) and not new[2] and not old[2].startswith(("+", ".post"))


def _numbers(text: str) -> tuple[int, ...]:
    found = [int(one) for one in text.split(".")]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)
