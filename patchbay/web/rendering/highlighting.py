"""Syntax highlighting: split a text into lines of coloured pieces. Pygments reads the text; templates write the markup.

A piece is one of a fixed set of class names, and its text. A text that takes too long is shown without colours. A text
that is cut is marked as cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import orjson
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_by_name
from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Operator, String, _TokenType
from pygments.util import ClassNotFound

from patchbay.cid import is_cid
from patchbay.kind import known_kinds
from patchbay.web.rendering.templates import MAX_INDENTED_BYTES, format_json
from patchbay.web.rendering.time_limits import TookTooLong, run_within

Piece = tuple[str, str]
"""A class name and a text. The class is empty for plain text and `cid` for a CID, which becomes a link."""

LINK = "cid"
MAX_COLOURED_CHARACTERS = 60_000
"""Longer texts have no colours."""

MAX_COLOURING_SECONDS = 1.0
"""Seconds to colour one text, at most; then the text has no colours."""

MAX_SHOWN_CHARACTERS = 400_000
"""Characters of a text on a page, at most; a link leads to all its bytes."""

CONTEXT_LINES = 2
"""Lines before and after a wrong line in an excerpt."""

_CIDS = re.compile(r"(bafkrei[a-z2-7]{52})")

_LEXERS = {"python": "python", "shell": "bash", "json": "json", "markdown": "markdown"}
"""The languages of pages, and the names of their lexers. Pygments imports a lexer when it is found first."""

_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "t-comment"),
    (String.Doc, "t-comment"),
    (Keyword.Constant, "t-number"),
    (Keyword, "t-keyword"),
    (Operator.Word, "t-keyword"),
    (Name.Function, "t-name"),
    (Name.Class, "t-name"),
    (Name.Tag, "t-name"),
    (Name.Decorator, "t-mark"),
    (Generic.Heading, "t-keyword"),
    (Generic.Subheading, "t-keyword"),
    (String, "t-string"),
    (Number, "t-number"),
    (Literal, "t-string"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """A highlighted text. `cut` means that it holds only the beginning."""

    language: str
    lines: tuple[tuple[Piece, ...], ...]
    cut: bool


def highlight_source(text: str, language: str) -> Source:
    """Highlight a text in a language: `json`, `markdown` or a kind of server; other names give plain text.

    JSON is indented first.
    """
    shown = indent_json(text) if language == "json" else text
    cut = len(shown) > MAX_SHOWN_CHARACTERS
    return Source(language, highlight_lines(shown[:MAX_SHOWN_CHARACTERS], language), cut)


@lru_cache(maxsize=64)
def highlight_lines(text: str, language: str) -> tuple[tuple[Piece, ...], ...]:
    """Split a text into lines of pieces. Together the pieces hold the whole text without its line ends."""
    return tuple(tuple(_link_cids(line)) for line in _split_lines(_colour(text, language)))


def colour_lines(text: str, language: str) -> list[list[Piece]]:
    """Split a text into lines of pieces without links. No cache: an editor sends a new text with each key press."""
    # Pygments recognizes a heading or a comment by the end of its line.
    return list(_split_lines(_colour(text if text.endswith("\n") else f"{text}\n", language)))


def indent_json(text: str) -> str:
    """Indent JSON. A text that is not JSON, too long or too deep stays as it is."""
    try:
        return text if len(text) > MAX_INDENTED_BYTES else format_json(orjson.loads(text))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return text


def format_readable(text: str) -> str:
    """Format a text for people: indent it when it is JSON."""
    return indent_json(text) if text.lstrip()[:1] in ("{", "[") else text


def _colour(text: str, language: str) -> list[Piece]:
    lexer = _find_lexer(language)
    if lexer is None or len(text) > MAX_COLOURED_CHARACTERS:
        return [("", text)]
    tokens = lexer(stripnl=False, ensurenl=False).get_tokens_unprocessed
    try:
        return run_within(
            MAX_COLOURING_SECONDS, lambda: [(_class_of(kind), value) for _, kind, value in tokens(text)], "the text"
        )
    except TookTooLong:
        return [("", text)]


def _find_lexer(language: str) -> type[Lexer] | None:
    """The lexer of a language or of a kind of server; None for unknown names."""
    of_kind = next((kind.language for kind in known_kinds() if language in (kind.name, kind.language)), "")
    name = _LEXERS.get(language) or _LEXERS.get(of_kind, of_kind)
    try:
        return find_lexer_class_by_name(name) if name else None
    except ClassNotFound:
        return None


@cache
def _class_of(kind: _TokenType) -> str:
    """The class name of a type of token."""
    return next((name for among, name in _CLASSES if kind in among), "")


def _split_lines(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    line: list[Piece] = []
    for kind, value in pieces:
        for number, part in enumerate(value.split("\n")):
            if number:
                yield line
                line = []
            if part and line and line[-1][0] == kind:
                line[-1] = (kind, line[-1][1] + part)
            elif part:
                line.append((kind, part))
    if line:
        yield line


def _link_cids(line: list[Piece]) -> Iterator[Piece]:
    for kind, value in line:
        for place, part in enumerate(_CIDS.split(value)):
            if part:
                yield (LINK if place % 2 and is_cid(part) else kind), part


def excerpt(text: str, language: str, line: int) -> list[dict[str, Any]]:
    """The lines around `line`, coloured, each with its number; `wrong` marks the line itself."""
    lines = highlight_lines(text, language)
    first = max(1, line - CONTEXT_LINES)
    return [
        {"number": number, "pieces": lines[number - 1], "wrong": number == line}
        for number in range(first, min(len(lines), line + CONTEXT_LINES) + 1)
    ]
