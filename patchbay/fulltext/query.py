"""Parses a query with the words of an index: each word with its other forms.

`narrow` finds the word itself in any English form; `wide` also finds its inflections in other languages, compound words
that contain it and, if no document has it, its probable correction. Both are FTS5 expressions.
Source: https://www.sqlite.org/fts5.html.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from patchbay.fulltext.forms import Vocabulary, compounds, corrections, halves, inflections
from patchbay.fulltext.words import (
    QueryTerm,
    exactly,
    folded,
    fts5_expression,
    joined,
    pieces,
    quoted,
    significant_words,
)


@dataclass(frozen=True, slots=True)
class Word:
    """One word or phrase of a query. `forms` are the words, without accents, that match it in a text."""

    term: QueryTerm
    narrow: str
    wide: str
    forms: frozenset[str]


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A parsed query; `suggestion` is the query with corrected spelling, if it has an unknown word."""

    words: tuple[Word, ...]
    suggestion: str | None = None

    def narrow(self, every: bool) -> str:
        """Return the expression for documents with the words themselves: with each word, or with any."""
        return joined([word.narrow for word in self.words], every)

    def wide(self, every: bool) -> str:
        """Return the expression for documents with any form of the words: of each word, or of any."""
        return joined([word.wide for word in self.words], every)

    def identifiers(self) -> dict[str, str]:
        """Return the words of several parts, such as `onRequest`, each with the expression for it as a whole."""
        return {word.term.text: one for word in self.words if (one := exactly(word.term)) is not None}

    def exact(self) -> str | None:
        """Return the expression for documents with every whole identifier of the query; None without identifiers."""
        found = [one for word in self.words if (one := exactly(word.term)) is not None]
        return joined(found, True) if found else None


def parse_query(
    query: str, vocabulary: Vocabulary, endings: Callable[[QueryTerm], list[str]], has: Callable[[str], bool]
) -> ParsedQuery:
    """Parse a query. `endings` completes an unfinished word; `has` says whether an expression finds any document."""
    words: list[Word] = []
    corrected = query
    for term in significant_words(query):
        word = _word(term, vocabulary, endings)
        if not term.phrase and not has(word.wide):
            word, better = _correct(term, word, vocabulary)
            corrected = corrected.replace(term.text, better, 1)
        words.append(word)
    return ParsedQuery(tuple(words), corrected if corrected != query else None)


def _word(term: QueryTerm, vocabulary: Vocabulary, endings: Callable[[QueryTerm], list[str]]) -> Word:
    narrow = fts5_expression(replace(term, open=False), True)
    if term.phrase:
        return Word(term, narrow, fts5_expression(term, True), frozenset())
    forms = {part: _forms(part, vocabulary) for part in pieces(term.text)}
    others = [form for found in forms.values() for form in found]
    wide = [fts5_expression(term, True)]
    if others:
        wide.append("(" + " AND ".join(_any((part, *found)) for part, found in forms.items()) + ")")
    if ended := endings(term):
        last = _any(ended)
        # In a word of several parts, only the last part is unfinished.
        wide.append("(" + " AND ".join([*map(quoted, pieces(term.text)[:-1]), last]) + ")")
        others += ended
    return Word(term, narrow, f"({' OR '.join(wide)})", frozenset(map(folded, others)))


def _forms(word: str, vocabulary: Vocabulary) -> list[str]:
    return list(dict.fromkeys((*inflections(word, vocabulary), *compounds(word, vocabulary))))


def _any(words: Iterable[str]) -> str:
    return "(" + " OR ".join(map(quoted, words)) + ")"


def _correct(term: QueryTerm, word: Word, vocabulary: Vocabulary) -> tuple[Word, str]:
    """Replace a word that no document has by its two halves or by its correction; also return the right spelling."""
    for left, right in halves(term.text, vocabulary)[:1]:
        found = {form for half in (left, right) for form in (half, *inflections(half, vocabulary))}
        return replace(word, wide=_any(sorted(found)), forms=frozenset(map(folded, found))), term.text
    better = corrections(term.text, vocabulary)
    if not better:
        return word, term.text
    forms = {folded(form) for one in better for form in (one, *inflections(one, vocabulary))}
    wide = _any((*better, *sorted(forms)))
    return replace(word, narrow=quoted(better[0]), wide=wide, forms=frozenset(forms)), better[0]
