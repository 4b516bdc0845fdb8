"""A query as it is understood by an index: each of its words with the other forms that count as the word.

`narrow` finds a word as it is written, in any English form; `wide` finds its inflections in other languages, compound
words that hold it and, where nothing has it, what it probably means. Both are expressions in FTS5's language.
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
    """One word or phrase of a query. `forms` are the words, without accents, that show it in a text."""

    term: QueryTerm
    narrow: str
    wide: str
    forms: frozenset[str]


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query as it is understood; `suggestion` is the query as it was probably meant, where a word is unknown."""

    words: tuple[Word, ...]
    suggestion: str | None = None

    def narrow(self, every: bool) -> str:
        """Finds documents with the words as they are written, each of them or any."""
        return joined([word.narrow for word in self.words], every)

    def wide(self, every: bool) -> str:
        """Finds documents with any form of the words, each of them or any."""
        return joined([word.wide for word in self.words], every)

    def exact(self) -> str | None:
        """Finds documents with every identifier of the query as it is written; None where there is none."""
        found = [one for word in self.words if (one := exactly(word.term)) is not None]
        return joined(found, True) if found else None


def understood(
    query: str, vocabulary: Vocabulary, endings: Callable[[QueryTerm], list[str]], has: Callable[[str], bool]
) -> ParsedQuery:
    """A query as it is understood. `endings` completes an unfinished word, `has` says what finds any."""
    words: list[Word] = []
    meant = query
    for term in significant_words(query):
        word = _word(term, vocabulary, endings)
        if not term.phrase and not has(word.wide):
            word, better = _guessed(term, word, vocabulary)
            meant = meant.replace(term.text, better, 1)
        words.append(word)
    return ParsedQuery(tuple(words), meant if meant != query else None)


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
        # Of a word that is put together only the last part is unfinished.
        wide.append("(" + " AND ".join([*map(quoted, pieces(term.text)[:-1]), last]) + ")")
        others += ended
    return Word(term, narrow, f"({' OR '.join(wide)})", frozenset(map(folded, others)))


def _forms(word: str, vocabulary: Vocabulary) -> list[str]:
    return list(dict.fromkeys((*inflections(word, vocabulary), *compounds(word, vocabulary))))


def _any(words: Iterable[str]) -> str:
    return "(" + " OR ".join(map(quoted, words)) + ")"


def _guessed(term: QueryTerm, word: Word, vocabulary: Vocabulary) -> tuple[Word, str]:
    """A word that no document has: its two halves, or what it probably means; and how it should have been written."""
    for left, right in halves(term.text, vocabulary)[:1]:
        found = {form for half in (left, right) for form in (half, *inflections(half, vocabulary))}
        return replace(word, wide=_any(sorted(found)), forms=frozenset(map(folded, found))), term.text
    better = corrections(term.text, vocabulary)
    if not better:
        return word, term.text
    forms = {folded(form) for one in better for form in (one, *inflections(one, vocabulary))}
    wide = _any((*better, *sorted(forms)))
    return replace(word, narrow=quoted(better[0]), wide=wide, forms=frozenset(forms)), better[0]
