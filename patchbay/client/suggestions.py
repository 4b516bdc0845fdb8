"""The names that are nearest to one that does not exist, for an error that says the next step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

MOST_NAMED = 3
MOST_LISTED = 30
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")


def words_of(name: str) -> str:
    """The words of a name in lower case, whatever its style: `getTime`, `get_time`, `get-time` and `GET.time` agree."""
    return " ".join(_PARTS.findall(name)).lower() or name.lower()


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """The known names that are most like a name, the best first."""
    by_words: dict[str, list[str]] = {}
    for one in known:
        by_words.setdefault(words_of(one), []).append(one)
    inside = [one for one in by_words if set(words_of(name).split()) <= set(one.split())]
    found = [*get_close_matches(words_of(name), list(by_words), MOST_NAMED), *inside]
    return [one for words in dict.fromkeys(found) for one in by_words[words]][:MOST_NAMED]


def not_listed(name: str, known: Sequence[str], what: str = "tool") -> str:
    """A sentence: a name is not among the known ones, and which are nearest."""
    close = nearest(name, known)
    if close:
        return f"there is no {what} {name!r}; did you mean {' or '.join(repr(one) for one in close)}?"
    listed = ", ".join(sorted(known)[:MOST_LISTED]) or "none"
    more = f" and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
    return f"there is no {what} {name!r}; there are: {listed}{more}"
