"""Patterns: JSON values with holes, in what is sent and in what is expected.

A hole is `<word>` in a string. In what is expected, `<any>`, `<string>`, `<number>`, `<integer>`, `<boolean>`,
`<object>` and `<array>` stand for such a value, and `<absent>` for a member that is not there; any other word is
bound to what is found when it is met first and stands for the same value, of the same type, from then on. A string
that is more than its hole matches text around it. An object may have members that the pattern does not name, unless
it is compared exactly; an array may go on only after `"..."`. In what is sent, a hole is filled with what its word
is bound to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Words = dict[str, Any]

_HOLE = re.compile(r"<([a-z_]+)>")
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}
MORE = "..."


class Mismatch(AssertionError):
    """A value differs from the expected one: `where` is the path inside the value."""

    def __init__(self, where: str, expected: Any, found: Any) -> None:
        super().__init__(f"at {where or 'the top'}: expected {expected!r}, found {found!r}")


def fill(template: Any, words: Words) -> Any:
    """A value with its holes filled. Raises KeyError for a word that is not bound."""
    if isinstance(template, dict):
        return {fill(key, words): fill(inner, words) for key, inner in template.items()}
    if isinstance(template, list):
        return [fill(inner, words) for inner in template]
    if not isinstance(template, str):
        return template
    whole = _HOLE.fullmatch(template)
    if whole:
        return words[whole[1]]
    return _HOLE.sub(lambda hole: str(words[hole[1]]), template)


def match(pattern: Any, value: Any, words: Words, exactly: bool = False) -> Words:
    """The words as they are after `value` matched; `words` stays as it is. Raises Mismatch."""
    bound = dict(words)
    _match(pattern, value, bound, "", exactly)
    return bound


def _match(pattern: Any, value: Any, words: Words, where: str, exactly: bool) -> None:
    if isinstance(pattern, str):
        _match_text(pattern, value, words, where)
    elif isinstance(pattern, dict):
        _match_object(pattern, value, words, where, exactly)
    elif isinstance(pattern, list):
        _match_array(pattern, value, words, where, exactly)
    elif type(pattern) is not type(value) or pattern != value:
        raise Mismatch(where, pattern, value)


def _match_object(pattern: Mapping[str, Any], value: Any, words: Words, where: str, exactly: bool) -> None:
    if not isinstance(value, dict):
        raise Mismatch(where, pattern, value)
    if exactly and value.keys() - pattern.keys():
        raise Mismatch(where, f"no member {sorted(value.keys() - pattern.keys())[0]}", value)
    for key, inner in pattern.items():
        if inner == "<absent>":
            if key in value:
                raise Mismatch(f"{where}.{key}", "nothing", value[key])
        elif key not in value:
            raise Mismatch(f"{where}.{key}", inner, "nothing")
        else:
            _match(inner, value[key], words, f"{where}.{key}", exactly)


def _match_array(pattern: list[Any], value: Any, words: Words, where: str, exactly: bool) -> None:
    wanted = pattern[:-1] if pattern[-1:] == [MORE] else pattern
    if not isinstance(value, list) or (
        len(value) < len(wanted) if wanted is not pattern else len(value) != len(wanted)
    ):
        raise Mismatch(where, pattern, value)
    for place, inner in enumerate(wanted):
        _match(inner, value[place], words, f"{where}[{place}]", exactly)


def _match_text(pattern: str, value: Any, words: Words, where: str) -> None:
    whole = _HOLE.fullmatch(pattern)
    if whole is None:
        _match_pieces(pattern, value, words, where)
    elif whole[1] in _KINDS:
        # A boolean is a number to Python, not to JSON.
        if not isinstance(value, _KINDS[whole[1]]) or (isinstance(value, bool) and whole[1] != "boolean"):
            raise Mismatch(where, pattern, value)
    elif whole[1] != "any":
        known = words.setdefault(whole[1], value)
        if type(known) is not type(value) or known != value:
            raise Mismatch(where, known, value)


def _match_pieces(pattern: str, value: Any, words: Words, where: str) -> None:
    fresh: set[str] = set()

    def piece(part: str, place: int) -> str:
        if place % 2 == 0:
            return re.escape(part)
        if part in ("any", "string"):
            return ".*"
        if part in words:
            return re.escape(str(words[part]))
        if part in fresh:
            return f"(?P={part})"
        fresh.add(part)
        return f"(?P<{part}>.+?)"

    expression = "".join(piece(part, place) for place, part in enumerate(_HOLE.split(pattern)))
    found = re.fullmatch(expression, value, re.DOTALL) if isinstance(value, str) else None
    if found is None:
        raise Mismatch(where, pattern, value)
    words.update(found.groupdict())
