"""The known names that are most similar to an unknown one, for errors that suggest the next step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

MAX_SUGGESTED_NAMES = 3
MAX_LISTED_NAMES = 30
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")


def split_words(name: str) -> str:
    """Split a name into words in lower case: `getTime`, `get_time`, `get-time` and `GET.time` give the same words."""
    return " ".join(_WORD.findall(name)).lower() or name.lower()


def find_similar_names(name: str, known: Sequence[str]) -> list[str]:
    """Find the known names that are most similar to a name, the best first."""
    by_words: dict[str, list[str]] = {}
    for one in known:
        by_words.setdefault(split_words(one), []).append(one)
    inside = [one for one in by_words if set(split_words(name).split()) <= set(one.split())]
    found = [*get_close_matches(split_words(name), list(by_words), MAX_SUGGESTED_NAMES), *inside]
    return [one for words in dict.fromkeys(found) for one in by_words[words]][:MAX_SUGGESTED_NAMES]


def did_you_mean(similar: Sequence[str]) -> str:
    """Return the end of a sentence that names at most two similar names; empty without any."""
    return f"; did you mean {' or '.join(similar[:2])}?" if similar else ""


def describe_unknown_name(name: str, known: Sequence[str], what: str = "tool") -> str:
    """Say that a name is not among the known ones, and which of them are similar."""
    close = find_similar_names(name, known)
    if close:
        return f"there is no {what} {name!r}; did you mean {' or '.join(repr(one) for one in close)}?"
    if not known:
        return f"there is no {what} {name!r}, and no other {what}"
    listed = ", ".join(sorted(known)[:MAX_LISTED_NAMES])
    more = f" and {len(known) - MAX_LISTED_NAMES} more" if len(known) > MAX_LISTED_NAMES else ""
    return f"there is no {what} {name!r}; there are: {listed}{more}"
