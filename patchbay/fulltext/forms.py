"""Finds the other forms of a query's word: inflected, compound, split in two, or with corrected spelling.

The forms are looked up among the words of an index when a query is parsed, so that indexing needs no extra work. The
tokenizer handles English endings; Snowball handles the other languages here.
Source: https://snowballstem.org/algorithms/.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Protocol

from patchbay.fulltext.words import folded

LATIN = ("german", "french", "spanish", "italian", "portuguese", "dutch", "swedish")
CYRILLIC = ("russian",)

MAX_STEMMED_WORDS = 60
"""Limit on the words of an index that are stemmed to find the inflections of one word."""

MAX_FORMS = 24
"""Limit on the other forms of one kind for a word."""

MAX_ENDING_LETTERS = 5
"""Letters of the longest ending of an inflected word."""

MIN_STEM_LETTERS = 3
MIN_PART_LETTERS = 4
"""Letters of the shortest word that is searched inside compound words."""

MIN_CORRECTED_LETTERS = 4
"""Letters of the shortest word whose spelling is corrected."""

MAX_CORRECTED_LETTERS = 64
"""Letters of the longest word that is corrected or split in two; a longer word has too many candidates."""

MAX_COMPARED_WORDS = 5000
"""Limit on the words of an index that are compared with a misspelled word."""

_LINKS = ("", "s", "es", "n", "en")
"""The letters between the parts of a compound word in German and related languages."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_CYRILLIC_LETTERS = "абвгдежзиклмнопрстуфхцчшщъыьэюя"
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_WORD = re.compile(r"[^\W\d_]+")


class Vocabulary(Protocol):
    """The words of an index, each with its form without accents."""

    def between(self, begin: str, end: str, max_words: int) -> list[str]:
        """Return words whose form sorts between `begin` and `end`, in order."""
        ...

    def containing(self, part: str, letters: int, max_words: int) -> list[str]:
        """Return words of at least `letters` letters whose form contains `part`."""
        ...

    def words_with_forms(self, forms: Iterable[str]) -> list[str]:
        """Return the words with one of these forms."""
        ...

    def documents(self, word: str) -> int:
        """Return the number of documents with a word."""
        ...


@lru_cache(maxsize=32)
def _stemmer(language: str) -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer(language)


@lru_cache(maxsize=65536)
def stem(language: str, word: str) -> str:
    """Return the stem of a word in one language, without accents."""
    return folded(_stemmer(language).stemWord(word.lower()))


def inflections(word: str, vocabulary: Vocabulary) -> list[str]:
    """Return the known words with the same stem in some language."""
    if not _WORD.fullmatch(word):
        return []
    found: dict[str, None] = {}
    for language in CYRILLIC if _CYRILLIC.search(word) else LATIN:
        root = stem(language, word)
        if len(root) < MIN_STEM_LETTERS:
            continue
        near = vocabulary.between(root, root + "\U0010ffff", 4 * MAX_STEMMED_WORDS)
        short = [one for one in near if len(one) <= len(root) + MAX_ENDING_LETTERS and one not in found]
        found |= dict.fromkeys(one for one in short[:MAX_STEMMED_WORDS] if stem(language, one) == root)
    found.pop(word.lower(), None)
    return list(found)[:MAX_FORMS]


def compounds(word: str, vocabulary: Vocabulary) -> list[str]:
    """Return the known words that contain a word as a part."""
    if not _WORD.fullmatch(word):
        return []
    languages = CYRILLIC if _CYRILLIC.search(word) else LATIN[:1]
    part = min([folded(word.lower()), *(stem(language, word) for language in languages)], key=len)
    if len(part) < MIN_PART_LETTERS:
        return []
    return vocabulary.containing(part, len(folded(word)) + MIN_PART_LETTERS, MAX_FORMS)


def halves(word: str, vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Return the pairs of known words that form the word."""
    flat = folded(word.lower())
    if len(flat) > MAX_CORRECTED_LETTERS:
        return []
    cuts = range(MIN_PART_LETTERS, len(flat) - MIN_PART_LETTERS + 1)
    pairs = [
        (flat[: cut - len(link)], flat[cut:])
        for cut in cuts
        for link in _LINKS
        if cut - len(link) >= MIN_PART_LETTERS and flat[:cut].endswith(link)
    ]
    known = {folded(one) for one in vocabulary.words_with_forms({one for pair in pairs for one in pair})}
    return [pair for pair in pairs if known.issuperset(pair)][:MAX_FORMS]


def corrections(word: str, vocabulary: Vocabulary) -> list[str]:
    """Return the known words that a misspelled word may mean, the most probable first."""
    flat = folded(word.lower())
    if not MIN_CORRECTED_LETTERS <= len(flat) <= MAX_CORRECTED_LETTERS or not flat.isalnum():
        return []
    near = vocabulary.words_with_forms(set(_single_edits(flat)))
    if not near:
        near = [one for one in _similar_words(flat, vocabulary) if _distance(flat, folded(one)) <= 2]
    counted = sorted((-vocabulary.documents(one), one) for one in near[:MAX_FORMS])
    return [one for count, one in counted if count < 0][:3]


def _single_edits(word: str) -> Iterator[str]:
    """Yield the words that differ by one added, removed, replaced or exchanged letter."""
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


def _similar_words(word: str, vocabulary: Vocabulary) -> Iterator[str]:
    """Yield the known words of about the same length that begin with the same two letters."""
    if len(word) < 6:
        return
    for one in vocabulary.between(word[:2], word[:2] + "\U0010ffff", MAX_COMPARED_WORDS):
        if abs(len(one) - len(word)) <= 2:
            yield one


def _distance(one: str, other: str) -> int:
    """Return the edit distance of two words, at most 3; an exchange of two neighbouring letters counts as one."""
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
