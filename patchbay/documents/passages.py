"""Finds the words of a query in a document: the lines to show, with whole words marked, and the best section.

One scan of the text finds the beginnings of the words, at most MAX_MATCHES; a word matches if its stem or its form is
in the query.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from patchbay.documents.headings import Heading, headings
from patchbay.fulltext.forms import stem
from patchbay.fulltext.query import ParsedQuery, Word
from patchbay.fulltext.words import folded, pieces, sign_of

MAX_LINES = 5
"""Limit on the matching lines of one document that are shown."""

MAX_LINE_CHARACTERS = 240
"""Limit on the characters of a line that are shown."""

MAX_WORD_CHARACTERS = 64
"""Limit on the characters of a word on either side of a match."""

MAX_MATCHES = 2000
"""Limit on the matches in one document."""

MARK = "**"
"""The text before and after a match."""


@dataclass(frozen=True, slots=True)
class Match:
    """A line of a document's text with its number, counted from 1, and MARK around each match."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Passages:
    """The matching lines, in order, and the heading of the best section (None: no section)."""

    lines: tuple[Match, ...] = ()
    section: Heading | None = None


@dataclass(frozen=True, slots=True)
class _Spot:
    """A match: its offsets in the text, and the number of its word in the query."""

    begin: int
    end: int
    word: int


def passages(reading: ParsedQuery, body: str, before: int) -> Passages:
    """Return the matching lines and section of a document's body; `before` is the number of lines before the body."""
    spots = list(_spots(reading, body))
    if not spots:
        return Passages(section=None)
    starts = [0, *(found.end() for found in re.finditer("\n", body))]
    by_line: dict[int, list[_Spot]] = {}
    for spot in spots:
        by_line.setdefault(bisect_right(starts, spot.begin) - 1, []).append(spot)
    # Show the lines with the most words of the query; of equal lines the first ones.
    best = sorted(by_line, key=lambda line: (-len({spot.word for spot in by_line[line]}), line))[:MAX_LINES]
    shown = []
    for line in sorted(best):
        end = starts[line + 1] - 1 if line + 1 < len(starts) else len(body)
        shown.append(Match(before + line + 1, _mark_matches(body[starts[line] : end], starts[line], by_line[line])))
    return Passages(tuple(shown), _section(body, spots))


def _section(body: str, spots: Sequence[_Spot]) -> Heading | None:
    """Return the section with the most words of the query, then the most in its heading, then the most matches."""
    found = headings(body)
    if not found:
        return None
    places = [heading.begin for heading in found]
    words: dict[int, Counter[int]] = {}
    titles: Counter[int] = Counter()
    for spot in spots:
        at = bisect_right(places, spot.begin) - 1
        if at >= 0:
            words.setdefault(at, Counter())[spot.word] += 1
            titles[at] += spot.begin < found[at].end
    if not words:
        return None
    best = max(words, key=lambda at: (len(words[at]), min(titles[at], 3), words[at].total(), -at))
    return found[best]


def _spots(reading: ParsedQuery, body: str) -> Iterator[_Spot]:
    """Yield the matches in a text in order, at most MAX_MATCHES for each word."""
    flat = _flat(body)
    found: list[_Spot] = []
    for number, word in enumerate(reading.words):
        phrase = word.term.text.split() if word.term.phrase else None
        if phrase:
            pattern = r"[\W_]+".join(re.escape(_flat(one)) for one in phrase)
            found += (_Spot(one.start(), one.end(), number) for one in _find(rf"(?<!\w){pattern}(?!\w)", flat))
            continue
        forms = _Forms(word)
        for one in _find("|".join(map(re.escape, forms.begins)), flat):
            begin, end = _whole_word(flat, one.start(), one.end())
            if forms.has(flat[begin:end], body[begin:end]):
                found.append(_Spot(begin, end, number))
    last = -1
    for spot in sorted(found, key=lambda spot: (spot.begin, -spot.end)):
        if spot.begin >= last:
            last = spot.end
            yield spot


def _find(pattern: str, text: str) -> Iterator[re.Match[str]]:
    if not pattern:
        return
    for number, found in enumerate(re.finditer(pattern, text)):
        if number == MAX_MATCHES:
            return
        yield found


class _Forms:
    """The forms of a query's word in a text."""

    def __init__(self, word: Word) -> None:
        text = word.term.text
        self._parts = [folded(one.lower()) for one in pieces(text)]
        self._whole = "".join(self._parts)
        self._forms = word.forms
        self._open = word.term.open
        self._sign = sign_of(text)
        self._stems = {stem("porter", one) for one in (*self._parts, self._whole)}
        begins = {stem("porter", one)[:-1] or one for one in (*self._parts, self._whole)} | {
            one[:4] if len(one) > 4 else one for one in self._forms
        }
        self.begins = [self._sign] if self._sign else sorted(filter(None, begins), key=len)

    def has(self, flat: str, written: str) -> bool:
        """Whether a whole word of a text is a form of the query's word."""
        if self._sign:
            return True
        if flat.replace("_", "") == self._whole or (self._open and flat.startswith(self._whole)):
            return True
        for one in (flat, *(folded(piece.lower()) for piece in pieces(written))):
            if one in self._forms or stem("porter", one) in self._stems:
                return True
        return not flat.isascii() and self._whole in flat


def _whole_word(text: str, begin: int, end: int) -> tuple[int, int]:
    """Return the bounds of the whole word around a match."""
    least, most = max(0, begin - MAX_WORD_CHARACTERS), min(len(text), end + MAX_WORD_CHARACTERS)
    while begin > least and (text[begin - 1].isalnum() or text[begin - 1] == "_"):
        begin -= 1
    while end < most and (text[end].isalnum() or text[end] == "_"):
        end += 1
    inner = text[begin:end].strip("_")
    if inner:
        begin += text[begin:end].index(inner)
        end = begin + len(inner)
    return begin, end


@lru_cache(maxsize=8192)
def _letter(letter: str) -> str:
    """Return a letter in lower case and without accents, still one letter."""
    bare = unicodedata.normalize("NFKD", letter)[0].lower()
    return bare if len(bare) == 1 else letter


def _flat(text: str) -> str:
    """Return a text in lower case and without accents, with the same offsets."""
    if text.isascii():
        return text.lower()
    return text.translate({ord(letter): _letter(letter) for letter in set(text)})


def _mark_matches(line: str, start: int, spots: Sequence[_Spot]) -> str:
    """Return a line with MARK around its matches, shortened around the first match."""
    begin, stop = 0, len(line.rstrip())
    if stop > MAX_LINE_CHARACTERS:
        first = spots[0].begin - start
        begin = max(0, first - MAX_LINE_CHARACTERS // 4)
        stop = min(stop, max(begin + MAX_LINE_CHARACTERS, spots[0].end - start))
    parts, at = [], begin
    for spot in spots:
        left, right = spot.begin - start, min(spot.end - start, len(line))
        if right > stop:
            break
        parts += [line[at:left], MARK, line[left:right], MARK]
        at = right
    parts.append(line[at:stop])
    text = "".join(parts).strip()
    return ("…" if begin else "") + text + ("…" if stop < len(line.rstrip()) else "")
