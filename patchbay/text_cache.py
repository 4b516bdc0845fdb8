"""Remembers the results of functions of texts that callers choose, such as headers and paths.

`functools.lru_cache` bounds the number of its entries and not their bytes: a thousand headers of 30 KiB are 30 MB. Long
texts are computed each time here; real ones are short.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

MAX_CACHED_CHARACTERS = 200
"""Maximum number of characters of a text whose result is remembered."""

Result = TypeVar("Result")


class _Results(dict[str, Result]):
    """The remembered results of one function."""

    def __init__(self, function: Callable[[str], Result], max_entries: int) -> None:
        super().__init__()
        self._function = function
        self._max_entries = max_entries

    def __missing__(self, text: str) -> Result:
        result = self._function(text)
        if len(text) <= MAX_CACHED_CHARACTERS:
            if len(self) >= self._max_entries:
                self.clear()
            self[text] = result
        return result


def cached_by_text(max_entries: int) -> Callable[[Callable[[str], Result]], Callable[[str], Result]]:
    """Return a decorator of a function of one text, which remembers the results of at most `max_entries` short texts.

    When more are asked for, all are forgotten. The function must be pure; what it raises is not remembered. A result
    that is remembered costs one lookup in a dictionary, without a call of a function of Python. Thread-safe.
    """

    def decorate(function: Callable[[str], Result]) -> Callable[[str], Result]:
        return _Results(function, max_entries).__getitem__

    return decorate
