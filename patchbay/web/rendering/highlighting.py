"""Text as lines of coloured pieces: Pygments reads, a template writes.

Rules: nothing here makes markup; a piece is a class name of a few fixed ones and the text as it was; what cannot be
coloured in reasonable time is shown without colours, and nothing is left out in silence.
Source: issue "Pages that people like to look at", part 4; THREATS 1.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

import orjson
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_by_name
from pygments.lexers.data import JsonLexer
from pygments.lexers.markup import MarkdownLexer
from pygments.lexers.python import PythonLexer
from pygments.lexers.shell import BashLexer
from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Operator, String, _TokenType
from pygments.util import ClassNotFound

from patchbay.cid import is_cid
from patchbay.kind import known_kinds
from patchbay.web.rendering.templates import MOST_INDENTED, pretty
from patchbay.web.rendering.time_limits import TookTooLong, within

Piece = tuple[str, str]
"""A class and its text; the class is empty for plain text and `cid` for a CID, which is a link."""

LINK = "cid"
MOST_COLOURED = 60_000
"""Characters of the longest text that is coloured."""

MOST_SECONDS = 1.0
"""How long the colouring of one text may take; then it is shown without colours."""

MOST_SHOWN = 400_000
"""Characters that a page shows of a text; the rest is behind the link to its bytes."""

_CIDS = re.compile(r"(bafkrei[a-z2-7]{52})")

_LEXERS: dict[str, type[Lexer]] = {
    "python": PythonLexer,
    "shell": BashLexer,
    "json": JsonLexer,
    "markdown": MarkdownLexer,
}

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
    """A text ready to be shown. `cut` says that only its beginning is there."""

    language: str
    lines: tuple[tuple[Piece, ...], ...]
    cut: bool


def source(text: str, language: str) -> Source:
    """A text in a language (`json`, `markdown`, a kind of server; any other is plain). JSON is indented first."""
    shown = indented(text) if language == "json" else text
    cut = len(shown) > MOST_SHOWN
    return Source(language, highlighted(shown[:MOST_SHOWN], language), cut)


@lru_cache(maxsize=64)
def highlighted(text: str, language: str) -> tuple[tuple[Piece, ...], ...]:
    """A text as lines of pieces, which together are the text without its line ends."""
    return tuple(tuple(_linked(line)) for line in _lines(_pieces(text, language)))


def indented(text: str) -> str:
    """JSON with line breaks; what is no JSON, too long or too deep for them stays as it is."""
    try:
        return text if len(text) > MOST_INDENTED else pretty(orjson.loads(text))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return text


def readable(text: str) -> str:
    """A text as people read it: what looks like JSON is indented."""
    return indented(text) if text.lstrip()[:1] in ("{", "[") else text


def _pieces(text: str, language: str) -> list[Piece]:
    lexer = _lexer(language)
    if lexer is None or len(text) > MOST_COLOURED:
        return [("", text)]
    tokens = lexer(stripnl=False, ensurenl=False).get_tokens_unprocessed
    try:
        return within(MOST_SECONDS, lambda: [(_class_of(kind), value) for _, kind, value in tokens(text)], "the text")
    except TookTooLong:
        return [("", text)]


def _lexer(language: str) -> type[Lexer] | None:
    """The lexer of a language of the pages, or of a kind of server and its language; None for any other."""
    found = _LEXERS.get(language)
    named = next((kind.language for kind in known_kinds() if language in (kind.name, kind.language)), None)
    if found is not None or named is None:
        return found
    try:
        return _LEXERS.get(named) or find_lexer_class_by_name(named)
    except ClassNotFound:
        return None


@cache
def _class_of(kind: _TokenType) -> str:
    """The class of a kind of token, of which there are a few dozen."""
    return next((name for among, name in _CLASSES if kind in among), "")


def _lines(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
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


def _linked(line: list[Piece]) -> Iterator[Piece]:
    for kind, value in line:
        for place, part in enumerate(_CIDS.split(value)):
            if part:
                yield (LINK if place % 2 and is_cid(part) else kind), part
