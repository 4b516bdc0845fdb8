"""Finds the words of a query in a document: the lines to show, with whole words marked, and the best section.

One scan of the text finds the beginnings of the words, at most MAX_MATCHES; a word matches if its stem or its form is
in the query. Where a document has a whole identifier of the query (`onRequest`, `on_request`), its parts do not match.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice
from typing import NamedTuple

from patchbay.documents.headings import Heading, headings, share_of_heading
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
"""Limit on the matches in one document, for each word of a query."""

MAX_KNOWN_WORDS = 20_000
"""Limit on the words of texts that are kept with each query."""

_OTHER_LETTERS = re.compile(r"[^\x00-\x7f]+")
_REST_OF_WORD = re.compile(rf"\w{{1,{MAX_WORD_CHARACTERS}}}")

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


class _Spot(NamedTuple):
    """A match: its offsets in the text, the number of its word in the query, and whether it is a whole identifier."""

    begin: int
    end: int
    word: int
    is_whole: bool = False


def passages(reading: ParsedQuery, body: str, before: int) -> Passages:
    """Return the matching lines and section of a document's body; `before` is the number of lines before the body."""
    spots = list(_spots(reading, body))
    if not spots:
        return Passages(section=None)
    starts = [0, *accumulate(len(line) + 1 for line in body.split("\n"))][:-1]
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
    """Return the best section: its heading is an identifier of the query, else has the most words of the query.

    Of equal sections, the one with the most words of the query in its heading, then with the most matches.
    """
    found = headings(body)
    if not found:
        return None
    places = [heading.begin for heading in found]
    words: dict[int, Counter[int]] = {}
    titles: Counter[int] = Counter()
    named: dict[int, float] = {}
    for spot in spots:
        at = bisect_right(places, spot.begin) - 1
        if at < 0:
            continue
        words.setdefault(at, Counter())[spot.word] += 1
        if spot.begin < found[at].end:
            titles[at] += 1
            if spot.is_whole:
                named[at] = max(named.get(at, 0.0), share_of_heading(found[at].title, body[spot.begin : spot.end]))
    if not words:
        return None
    best = max(words, key=lambda at: (named.get(at, 0.0), len(words[at]), min(titles[at], 3), words[at].total(), -at))
    return found[best]


def _spots(reading: ParsedQuery, body: str) -> Iterator[_Spot]:
    """Yield the matches in a text in order, at most MAX_MATCHES for each word."""
    flat = _flat(body)
    found: list[_Spot] = []
    left: list[int] = []
    for number, word in enumerate(reading.words):
        if word.term.phrase:
            pattern = r"[\W_]+".join(re.escape(_flat(one)) for one in word.term.text.split())
            found += (_Spot(one.start(), one.end(), number) for one in _find(rf"(?<!\w){pattern}(?!\w)", flat))
            continue
        whole = [
            _Spot(one.start(), one.end(), number, True)
            for one in _find(_forms_of(word).identifier, flat)
            if not flat[one.start() - 1 : one.start()].isalnum()
        ]
        found += whole
        if not whole:
            left.append(number)
    found += _spots_of_forms(_matcher_of(tuple(reading.words[number] for number in left)), left, flat, body)
    last = -1
    for spot in sorted(found, key=lambda spot: (spot.begin, -spot.end)):
        if spot.begin >= last:
            last = spot.end
            yield spot


def _spots_of_forms(matcher: _Matcher, numbers: Sequence[int], flat: str, body: str) -> Iterator[_Spot]:
    """Yield the words of a text that are forms of words of the query; `numbers` are those of the matcher's words."""
    last = -1
    for start, stop in _find_texts(matcher.begins, flat):
        if start < last:
            continue
        begin, end = _whole_word(flat, start, stop)
        last = end
        found = matcher.find(flat[begin:end], body[begin:end])
        if found >= 0:
            yield _Spot(begin, end, numbers[found])


def _find_texts(wanted: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Return the offsets of some texts in another one, in order, at most MAX_MATCHES of each.

    A search for each of them takes a third of the time of one regular expression for all.
    """
    found: list[tuple[int, int]] = []
    for one in wanted:
        at, length = text.find(one), len(one)
        many = 0
        while at >= 0 and many < MAX_MATCHES:
            found.append((at, at + length))
            at = text.find(one, at + length)
            many += 1
    found.sort()
    return found


def _find(pattern: str, text: str) -> Iterator[re.Match[str]]:
    return islice(re.finditer(pattern, text), MAX_MATCHES) if pattern else iter(())


class _Forms:
    """The forms of a query's word in a text. `identifier` is a pattern of the whole word, if it has several parts.

    The pattern begins with a letter, not with a look at the character before it, so that it is found fast.
    """

    def __init__(self, word: Word) -> None:
        text = word.term.text
        self._parts = [folded(one.lower()) for one in pieces(text)]
        self._whole = "".join(self._parts)
        self._forms = word.forms
        self._open = word.term.open
        self._sign = sign_of(text)
        self._stems = {stem("porter", one) for one in (*self._parts, self._whole)}
        stems = (stem("porter", one) for one in (*self._parts, self._whole))
        # A stem is the beginning of its words, except that its last letter may be an `i` for `y` or an added `e`.
        begins = {(one[:-1] if one[-1:] in ("e", "i") else one) or text for one in stems} | self._forms
        self.begins = [self._sign] if self._sign else _without_longer(begins)
        inner = r"[._-]?".join(map(re.escape, self._parts))
        self.identifier = "" if self._sign or len(self._parts) < 2 else rf"{inner}(?![^\W_])"

    def has(self, flat: str, written: str) -> bool:
        """Whether a whole word of a text is a form of the query's word."""
        if self._sign:
            return self._sign in flat
        if flat.replace("_", "") == self._whole or (self._open and flat.startswith(self._whole)):
            return True
        for one in (flat, *(folded(piece.lower()) for piece in pieces(written))):
            if one in self._forms or stem("porter", one) in self._stems:
                return True
        return not flat.isascii() and self._whole in flat


class _Matcher:
    """Several words of a query: `begins` has the first letters of their forms. Keeps the words that it saw."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._forms = [_forms_of(word) for word in words]
        self.begins = _without_longer(one for forms in self._forms for one in forms.begins)
        self._known: dict[str, int] = {}

    def find(self, flat: str, written: str) -> int:
        """Return the place of the first word that a whole word of a text is a form of; -1 for none."""
        known = self._known.get(written)
        if known is None:
            if len(self._known) > MAX_KNOWN_WORDS:
                self._known.clear()
            found = (place for place, forms in enumerate(self._forms) if forms.has(flat, written))
            known = self._known[written] = next(found, -1)
        return known


def _without_longer(begins: Iterable[str]) -> list[str]:
    """Return the texts, shortest first, without those that begin with another one."""
    found: list[str] = []
    for one in sorted(filter(None, begins), key=lambda one: (len(one), one)):
        if not one.startswith(tuple(found)):
            found.append(one)
    return found


@lru_cache(maxsize=256)
def _forms_of(word: Word) -> _Forms:
    return _Forms(word)


@lru_cache(maxsize=64)
def _matcher_of(words: tuple[Word, ...]) -> _Matcher:
    return _Matcher(words)


def _whole_word(text: str, begin: int, end: int) -> tuple[int, int]:
    """Return the bounds of the whole word around a match, without underscores at its ends."""
    least = max(0, begin - MAX_WORD_CHARACTERS)
    while begin > least and (text[begin - 1].isalnum() or text[begin - 1] == "_"):
        begin -= 1
    rest = _REST_OF_WORD.match(text, end)
    end = rest.end() if rest is not None else end
    if text[begin] == "_" or text[end - 1] == "_":
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
    low = text.lower()
    if text.isascii():
        return low
    if len(low) != len(text):
        low = "".join(map(_letter, text))
    return _OTHER_LETTERS.sub(lambda found: "".join(map(_letter, found[0])), low)


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
