"""Finds and shows the hidden characters of a text: control, invisible and direction-changing characters.

A hostile author hides instructions with them, or makes two names look alike. Source: Unicode Standard Annex 44,
property Default_Ignorable_Code_Point; Unicode Technical Report 36, sections 2 and 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_INVISIBLE = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff"  # look empty
    "\u00ad\u061c\u070f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"  # format, direction
    "\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # format, in other planes
)
_CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ue000-\uf8ff\ufff9-\uffff"
_JOINED = "(?<=[^\x00-\xa8" + _INVISIBLE + "])[\u200c\u200d\ufe0e\ufe0f]|\ufe0f(?=\u20e3)"
"""Characters that join or select letters and emoji; they are ordinary after a letter or an emoji."""

HIDDEN = re.compile(f"{_JOINED}|([{_INVISIBLE}{_CONTROL}])")
"""Group 1 is a hidden character; a match without it is an ordinary joiner."""


def find_hidden_character(text: str) -> str | None:
    """Return the first hidden character of a text as `U+202E`, or None. Line feeds, returns and tabs are ordinary."""
    found = next((match[1] for match in HIDDEN.finditer(text) if match[1]), None)
    return None if found is None else _code_point(found)


def show_hidden_characters(text: str) -> str:
    """Return the text with `[U+202E]` in the place of each hidden character, and a sentence at the end that says so."""
    shown, count = _replace(text, lambda one: f"[{_code_point(one)}]")
    if not count:
        return text
    sentence = "1 hidden character is" if count == 1 else f"{count} hidden characters are"
    return f"{shown} ({sentence} shown by code point.)"


def escape_hidden_characters(json_text: str) -> str:
    r"""Return JSON text with a JSON escape such as `\u202e` in the place of each hidden character."""
    return _replace(json_text, _json_escape)[0]


def _replace(text: str, replacement: Callable[[str], str]) -> tuple[str, int]:
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        if match[1] is None:
            return match[0]
        count += 1
        return replacement(match[1])

    return HIDDEN.sub(replace, text), count


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
