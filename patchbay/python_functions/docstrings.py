"""Docstrings: the first line, the description of each parameter, the description of the result.

Google, NumPy and Sphinx styles, recognized by their section headings and parsed by griffe.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from patchbay.descriptors import encodable

MAX_DOCSTRING_CHARACTERS = 64 * 1024
"""Maximum characters of a docstring whose sections are read; of a longer one only the first line is used."""

Style = Literal["numpy", "google", "sphinx"]
"""The styles of docstrings, by griffe's names of their parsers."""

SECTIONS = r"(?:args|arguments|params|parameters|keyword args|keyword arguments|other parameters|attributes|returns)"
STYLES: Mapping[Style, re.Pattern[str]] = {
    "numpy": re.compile(rf"^[ \t]*{SECTIONS}[ \t]*\n[ \t]*-{{3,}}[ \t]*$", re.IGNORECASE | re.MULTILINE),
    "google": re.compile(rf"^[ \t]*{SECTIONS}:[ \t]*\n[ \t]+\S", re.IGNORECASE | re.MULTILINE),
    "sphinx": re.compile(r"^[ \t]*:(?:param|parameter|arg|argument|key|keyword|returns?)\b", re.MULTILINE),
}
OPTIONS: Mapping[Style, dict[str, bool]] = {
    "numpy": {"warnings": False},
    # One value is returned, so "The sum: all of it" is a description without a name.
    "google": {"warnings": False, "returns_multiple_items": False, "returns_named_value": False},
    "sphinx": {"warnings": False},
}
UNREADABLE = (SyntaxError, ValueError, TypeError, LookupError, AttributeError, RecursionError, MemoryError)
"""Errors that the parser may raise on a type inside a docstring; they must not hide a tool."""


@dataclass(frozen=True, slots=True)
class Doc:
    """A docstring as plain text: its first line, its parameters by name, its return value."""

    first: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    returns: str = ""


def read_docstring(docstring: str | None) -> Doc:
    """Read one docstring. Never fails: unreadable parts are ignored."""
    if not docstring:
        return Doc()
    text = inspect.cleandoc(encodable(docstring))
    first = text.lstrip().partition("\n")[0].strip()
    style = _style(text) if len(text) <= MAX_DOCSTRING_CHARACTERS else None
    if style is None:
        return Doc(first)
    import griffe

    try:
        sections = griffe.Docstring(text).parse(style, **OPTIONS[style])
    except UNREADABLE:
        return Doc(first)
    return _doc(first, sections)


def _style(text: str) -> Style | None:
    return next((style for style, heading in STYLES.items() if heading.search(text)), None)


def _doc(first: str, sections: list[Any]) -> Doc:
    parameters: dict[str, str] = {}
    returns = ""
    for section in sections:
        if section.kind.value in ("parameters", "other parameters", "attributes"):
            parameters.update({item.name.strip(): _one_line(item.description) for item in section.value})
        elif section.kind.value == "returns" and section.value:
            returns = _one_line(section.value[0].description)
    return Doc(first, parameters, returns)


def _one_line(text: str) -> str:
    return " ".join(text.split())
