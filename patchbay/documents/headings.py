"""Finds the headings of a Markdown text: their words without badges and markup, and their anchors.

An anchor has the form that GitHub uses: lower case, without punctuation, `-` for blanks, `-1` at the end of the second
equal one. An anchor of the author (`{#name}`) stays unchanged. A heading begins with `#`, or is above a line of `=` or
`-` (Setext).
Sources: https://spec.commonmark.org; https://github.github.com/gfm/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*)$", re.MULTILINE)
_UNDERLINE = re.compile(r"^ {0,3}(=+|-+)[ \t\r]*$", re.MULTILINE)
_NOT_PARAGRAPH = re.compile(
    r"[ \t\r]*$|#{1,6}(?:[ \t]|$)|(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)|>|<[a-zA-Z/!?]|\[[^\]]+\]:"
    r"|(?:[ \t]*[-*_=]){2,}[ \t\r]*$"
)
"""The beginning of a line outside of paragraphs: blank, heading, list, quotation, HTML, definition of a link, rule."""
_CONTAINER = re.compile(r" *(?:(?:[-+*]|\d{1,9}[.)])[ \t]+\S|>|<[a-zA-Z/!?])")
"""The beginning of a list item, quotation or HTML block, which goes on in the lines below it."""
_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_OWN_ANCHOR = re.compile(r"\{[ ]?#([\w.:-]{1,200})[^{}]{0,200}\}$")
_IMAGE = re.compile(r"!\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\])")
_LINK = re.compile(r"\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--[^<>]*-->")
_EMPHASIS = re.compile(r"\*\*|__(?=\w)|(?<=\w)__|`|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)")
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")
_HTML_HEADING = re.compile(r"<h1\b[^<>]{0,500}>(.{1,1000}?)</h1>", re.DOTALL | re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")

_NOISE = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\b(?:class|parameter|event|function|method|interface|type|enum)s?:", re.I)
_RUN = re.compile(r"[\w.-]+")
_JOINTS = re.compile(r"[._-]")

MAX_KEPT_CHARACTERS = 128 * 1024
"""Characters of the longest text whose headings are kept in memory."""

MAX_TITLE_PLACE = 20_000
"""Characters at the beginning of a text that are searched for an HTML heading as the title."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: its level, its plain words, its anchor, and the offsets of its line in the text."""

    level: int
    title: str
    anchor: str
    begin: int
    end: int


def headings(body: str) -> tuple[Heading, ...]:
    """Return the headings of a text, without lines in fenced code and headings without words.

    The headings of texts that were asked for lately are kept.
    """
    return _find_headings(body) if len(body) > MAX_KEPT_CHARACTERS else _find_kept_headings(body)


@lru_cache(maxsize=256)
def _find_kept_headings(body: str) -> tuple[Heading, ...]:
    return _find_headings(body)


def _find_headings(body: str) -> tuple[Heading, ...]:
    if "#" not in body and "\n=" not in body and "\n-" not in body and "\n " not in body:
        return ()
    # The closing `#` are stripped here: a regular expression for them takes cubic time for a line of blanks.
    plain = _FENCED.sub(_blank_lines, body)
    found: list[Heading] = []
    anchors = Anchors()
    for level, text, begin, end in sorted((*_atx(plain), *_setext(plain)), key=lambda each: each[2]):
        own = _OWN_ANCHOR.search(text)
        title = plain_title(text[: own.start()] if own else text)
        if not title:
            continue
        found.append(Heading(level, title, anchors.add(title, own[1] if own else ""), begin, end))
    return tuple(found)


def _blank_lines(fence: re.Match[str]) -> str:
    """Return blanks in place of fenced code, so that all offsets stay."""
    return "\n".join(" " * len(line) for line in fence[0].split("\n"))


def _atx(plain: str) -> Iterator[tuple[int, str, int, int]]:
    """Yield level, text and offsets of the headings that begin with `#`."""
    for line in _HEADING.finditer(plain):
        yield len(line[1]), line[2].rstrip(" \t").rstrip("#").rstrip(" \t"), line.start(), line.end()


def _setext(plain: str) -> Iterator[tuple[int, str, int, int]]:
    """Yield level, text and offsets of the headings over a line of `=` or `-`: the whole paragraph above the line."""
    last = 0
    for line in _UNDERLINE.finditer(plain):
        begin, lines = line.start(), list[str]()
        while begin > last:
            above = plain.rfind("\n", last, begin - 1) + 1 or last
            text = plain[above : begin - 1]
            # Four blanks begin code, but inside of a paragraph they are blanks.
            if _NOT_PARAGRAPH.match(text.lstrip(" ")) or text.startswith("\t"):
                break
            begin = above
            lines.append(text)
        before = plain[plain.rfind("\n", 0, max(0, begin - 1)) + 1 : max(0, begin - 1)]
        last = line.end() + 1
        if lines and not lines[-1].startswith("    ") and not _CONTAINER.match(before):
            yield 1 if line[1][0] == "=" else 2, " ".join(map(str.strip, reversed(lines))), begin, line.end()


class Anchors:
    """The anchors of one document, each once: the words of a heading in lower case, with a number when it is taken."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def add(self, title: str, own: str = "") -> str:
        """Return the anchor of the next heading; `own` is the anchor that the text of the heading gives."""
        anchor = _NOT_IN_ANCHOR.sub("", title.lower()).strip().replace(" ", "-")
        count = self._known[anchor] = self._known.get(anchor, -1) + 1
        return own or (f"{anchor}-{count}" if count else anchor)


def title_of(body: str, name: str = "") -> str:
    """Return the first heading with words, in Markdown or HTML, or an empty text.

    An HTML heading before the first Markdown heading may be a banner that all documents of a project share. The
    Markdown heading is the title if it has more words of the file's `name` than the HTML heading.
    """
    found = headings(body)
    html = _HTML_HEADING.search(body[:MAX_TITLE_PLACE])
    banner = plain_title(html[1]) if html is not None and (not found or html.start() < found[0].begin) else ""
    if not found:
        return banner
    words = _words(name)
    if banner and len(words & _words(banner)) >= len(words & _words(found[0].title)):
        return banner
    return found[0].title


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


@lru_cache(maxsize=8192)
def plain_title(text: str) -> str:
    """Return the words of a heading, without images, addresses of links, tags and emphasis."""
    text = _IMAGE.sub("", text)
    text = _LINK.sub(r"\1", text)
    text = _TAG.sub("", text)
    return " ".join(_EMPHASIS.sub("", text).split())


def share_of_heading(title: str, name: str) -> float:
    """Return how much of a heading an identifier is: 1 for the whole, 0.75 for its beginning, 0.5 for another part.

    Parameters, types in parentheses and words such as `Class:` do not count. Another spelling, such as `on_request` for
    `onRequest`, has a tenth less; 0 without the identifier.
    """
    runs = [run for each in _RUN.findall(_NOISE.sub(" ", title)) if (run := each.strip("._-"))]
    wanted = _join(name)
    places = [at for at, run in enumerate(runs) if wanted in (_join(run), _join(run.rpartition(".")[2]))]
    if not places:
        return 0.9 if wanted == _join("".join(runs)) else 0.0
    share = 0.5 if places[0] else 1.0 if len(runs) == 1 else 0.75
    return share if runs[places[0]].endswith(name) else 0.9 * share


def _join(name: str) -> str:
    return _JOINTS.sub("", name).lower()
