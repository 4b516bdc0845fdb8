"""Splits a document into sections for search by meaning: one for each heading, long ones in several parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from patchbay.documents.headings import Heading, headings

MAX_SECTION_CHARACTERS = 2000
"""Characters of a part; a longer section has several, cut at the ends of lines."""

MAX_SECTIONS = 400
"""Limit on the parts of one document; the rest of it is found by words only."""

_ADDRESS = re.compile(r"https?://\S+")
_MARKUP = re.compile(r"[`*_#>|=\-{}\[\]()<>/\\]+")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document: its nearest heading (None before the first one), and its text for a model."""

    heading: Heading | None
    text: str


def sections(title: str, body: str) -> list[Section]:
    """Return the sections of a document, each with the titles above it; one of the title alone for an empty body."""
    found: list[Section] = []
    for heading, above, text in _cuts(body):
        for part in _parts(text):
            found.append(Section(heading, "\n".join((title, above, _plain(part)))))
            if len(found) == MAX_SECTIONS:
                return found
    return found or [Section(None, title)]


def _cuts(body: str) -> Iterator[tuple[Heading | None, str, str]]:
    """Yield the text below each heading, with the heading and the titles from the first level to its own."""
    known = headings(body)
    ends = [*(heading.begin for heading in known), len(body)]
    yield None, "", body[: ends[0]]
    above: list[Heading] = []
    for heading, end in zip(known, ends[1:], strict=True):
        above = [*(one for one in above if one.level < heading.level), heading]
        yield heading, " > ".join(one.title for one in above), body[heading.begin : end]


def _parts(text: str) -> Iterator[str]:
    """Yield a text in parts of at most MAX_SECTION_CHARACTERS; none for a text of blanks."""
    text = text.strip()
    while len(text) > MAX_SECTION_CHARACTERS:
        end = text.rfind("\n", 1, MAX_SECTION_CHARACTERS) + 1 or MAX_SECTION_CHARACTERS
        yield text[:end]
        text = text[end:].lstrip()
    if text:
        yield text


def _plain(text: str) -> str:
    return _MARKUP.sub(" ", _ADDRESS.sub(" ", text))
