"""The other forms of a word that is searched for: inflected, compound, split in two, or spelled wrongly.

All are looked up among the words of an index when a query is read, so that a document costs nothing more to index.
English endings are the tokenizer's affair; here are the languages whose endings it does not know, by Snowball.
Source: https://snowballstem.org/algorithms/.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Protocol

import snowballstemmer

from patchbay.fulltext.words import folded

LATIN = ("german", "french", "spanish", "italian", "portuguese", "dutch", "swedish")
CYRILLIC = ("russian",)

MOST_STEMMED = 60
"""How many words of an index are stemmed to find the inflections of one word."""

MOST_FORMS = 24
"""How many other forms of one kind a word has at most."""

LONGEST_ENDING = 5
"""Letters of the longest ending of an inflected word."""

SHORTEST_STEM = 3
SHORTEST_PART = 4
"""Letters of the shortest word that is looked for inside of compound words."""

SHORTEST_CORRECTED = 4
"""Letters of the shortest word whose spelling is corrected."""

LONGEST_CORRECTED = 64
"""Letters of the longest word that is corrected or split in two; a longer one makes too many candidates."""

MOST_COMPARED = 5000
"""How many words of an index are compared with one that is spelled wrongly."""

_LINKS = ("", "s", "es", "n", "en")
"""What German and its relatives put between the parts of a compound word."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_CYRILLIC_LETTERS = "абвгдежзиклмнопрстуфхцчшщъыьэюя"
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_WORD = re.compile(r"[^\W\d_]+")


class Vocabulary(Protocol):
    """The words of an index, each with its form without accents."""

    def between(self, begin: str, end: str, most: int) -> list[str]:
        """Words whose form lies between two, in order."""
        ...

    def containing(self, part: str, letters: int, most: int) -> list[str]:
        """Words of at least so many letters whose form holds a part."""
        ...

    def known(self, forms: Iterable[str]) -> list[str]:
        """Those words that have one of these forms."""
        ...

    def documents(self, word: str) -> int:
        """How many documents have a word."""
        ...


@lru_cache(maxsize=32)
def _stemmer(language: str) -> snowballstemmer.stemmer:
    return snowballstemmer.stemmer(language)


@lru_cache(maxsize=65536)
def stem(language: str, word: str) -> str:
    """The stem of a word in one language, without accents."""
    return folded(_stemmer(language).stemWord(word.lower()))


def inflections(word: str, vocabulary: Vocabulary) -> list[str]:
    """Known words that have the stem of a word in some language."""
    if not _WORD.fullmatch(word):
        return []
    found: dict[str, None] = {}
    for language in CYRILLIC if _CYRILLIC.search(word) else LATIN:
        root = stem(language, word)
        if len(root) < SHORTEST_STEM:
            continue
        near = vocabulary.between(root, root + "\U0010ffff", 4 * MOST_STEMMED)
        short = [one for one in near if len(one) <= len(root) + LONGEST_ENDING and one not in found]
        found |= dict.fromkeys(one for one in short[:MOST_STEMMED] if stem(language, one) == root)
    found.pop(word.lower(), None)
    return list(found)[:MOST_FORMS]


def compounds(word: str, vocabulary: Vocabulary) -> list[str]:
    """Known words that hold a word as a part."""
    if not _WORD.fullmatch(word):
        return []
    languages = CYRILLIC if _CYRILLIC.search(word) else LATIN[:1]
    part = min([folded(word.lower()), *(stem(language, word) for language in languages)], key=len)
    if len(part) < SHORTEST_PART:
        return []
    return vocabulary.containing(part, len(folded(word)) + SHORTEST_PART, MOST_FORMS)


def halves(word: str, vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Two known words that a word is made of, if there are some."""
    flat = folded(word.lower())
    if len(flat) > LONGEST_CORRECTED:
        return []
    cuts = range(SHORTEST_PART, len(flat) - SHORTEST_PART + 1)
    pairs = [
        (flat[: cut - len(link)], flat[cut:])
        for cut in cuts
        for link in _LINKS
        if cut - len(link) >= SHORTEST_PART and flat[:cut].endswith(link)
    ]
    known = {folded(one) for one in vocabulary.known({one for pair in pairs for one in pair})}
    return [pair for pair in pairs if known.issuperset(pair)][:MOST_FORMS]


def corrections(word: str, vocabulary: Vocabulary) -> list[str]:
    """Known words that a wrongly spelled one may mean, the most probable first."""
    flat = folded(word.lower())
    if not SHORTEST_CORRECTED <= len(flat) <= LONGEST_CORRECTED or not flat.isalnum():
        return []
    near = vocabulary.known(set(_edited(flat)))
    if not near:
        near = [one for one in _alike(flat, vocabulary) if _distance(flat, folded(one)) <= 2]
    counted = sorted((-vocabulary.documents(one), one) for one in near[:MOST_FORMS])
    return [one for count, one in counted if count < 0][:3]


def _edited(word: str) -> Iterator[str]:
    """What one letter more, less, other or exchanged makes of a word."""
    letters = _CYRILLIC_LETTERS if _CYRILLIC.search(word) else _LETTERS
    for at in range(len(word) + 1):
        before, after = word[:at], word[at:]
        if after:
            yield before + after[1:]
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
        for letter in letters:
            yield before + letter + after
            if after:
                yield before + letter + after[1:]


def _alike(word: str, vocabulary: Vocabulary) -> Iterator[str]:
    """Known words of about the same length that begin with the same two letters, or end as the word does."""
    if len(word) < 6:
        return
    for one in vocabulary.between(word[:2], word[:2] + "\U0010ffff", MOST_COMPARED):
        if abs(len(one) - len(word)) <= 2:
            yield one


def _distance(one: str, other: str) -> int:
    """How many letters have to change to make one word of another; two neighbours that are exchanged count one."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        two_before, before, row = before, row, [i]
        for j, against in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, two_before[j - 2] + 1)
            row.append(cost)
        if min(row) > 2:
            return 3
    return row[-1]
