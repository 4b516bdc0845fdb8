"""Searches a library: the documents that match a query, best first.

A search finds the documents with every word of the query, in any form; if these are few, or the query is a question,
also the documents with some of its words. Words in a title have the highest weight; exact words count more than other
forms, rare words more than common words, a whole identifier more than its parts. A word that no document has is
replaced by its probable correction. `*` or an empty query gives every document by title.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from patchbay.documents.file_names import list_stems, share_of_name
from patchbay.documents.headings import share_of_heading
from patchbay.documents.index import Document, DocumentRow, FolderIndex, group_of
from patchbay.documents.passages import Match, passages
from patchbay.errors import WrongArguments
from patchbay.fulltext.index import Index, only
from patchbay.fulltext.index import IndexHit as Scored
from patchbay.fulltext.query import ParsedQuery
from patchbay.sqlite import sqlite3

ENOUGH_FULL_MATCHES = 5
"""With this many documents that have every word, a search finds no documents with only some of the words."""

MAX_SHORT_QUERY_WORDS = 3
"""A query of more words counts as a question: the search also finds documents with some of its words."""

MAX_RANKED = 200
"""Limit on the documents, beyond the requested ones, that are ranked by titles and coverage too."""

MAX_SEARCH_SECONDS = 10.0
"""Limit on the time of one search in the index; then the search fails."""

MAX_QUERY_CHARACTERS = 4_000
"""Limit on the characters of a query."""

MAX_OFFSET = 1_000_000
"""Limit on the documents that a page of results skips."""

EMPTY_QUERY = ParsedQuery(())
"""A query without words."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DocumentHit:
    """A matching document. A higher `score` is better; scores are comparable only within one search."""

    row: DocumentRow
    score: float


@dataclass(frozen=True, slots=True)
class Search:
    """The result of a search, from an offset on.

    `total` is the number of matching documents, `every` says that each has all the words, `suggestion` is the probably
    intended query, `reading` the parsed query.
    """

    hits: list[DocumentHit]
    total: int
    every: bool = True
    suggestion: str | None = None
    reading: ParsedQuery = EMPTY_QUERY


def is_all(query: str) -> bool:
    """Whether a query matches every document."""
    return query.strip() in ("", "*")


def search(
    folder_index: FolderIndex,
    query: str,
    where: Mapping[str, str],
    limit: int,
    offset: int = 0,
    seconds: float = MAX_SEARCH_SECONDS,
) -> Search:
    """Return the documents that match a query and have these labels (`top`, `grp`), at most `limit` from `offset` on.

    Raises WrongArguments for a query or an offset beyond its limit, TimedOut for a search longer than `seconds`.
    """
    if len(query) > MAX_QUERY_CHARACTERS:
        raise WrongArguments(f"the query has {len(query)} characters; expected at most {MAX_QUERY_CHARACTERS}")
    if not 0 <= offset <= MAX_OFFSET:
        raise WrongArguments(f"expected an offset from 0 to {MAX_OFFSET}")
    if is_all(query):
        chosen = [row for row in folder_index.rows.values() if _has_labels(row, where)]
        chosen.sort(key=lambda row: (row.title.casefold(), row.key))
        return Search([DocumentHit(row, 0.0) for row in chosen[offset : offset + limit]], len(chosen))
    return _ask_index(folder_index, seconds, lambda index: _search(folder_index, index, query, where, limit, offset))


def matches(folder_index: FolderIndex, query: str, document: Document) -> list[Match]:
    """Return the lines of a document with words of a query, in order; none for a query that matches every document.

    Raises WrongArguments as `search` does, TimedOut after MAX_SEARCH_SECONDS.
    """
    if is_all(query):
        return []
    reading = _ask_index(folder_index, MAX_SEARCH_SECONDS, lambda index: index.read(query))
    return list(passages(reading, document.front.body, document.front.lines).lines)


def _search(
    folder_index: FolderIndex, index: Index, query: str, where: Mapping[str, str], limit: int, offset: int
) -> Search:
    reading = index.read(query)
    if not reading.words or limit < 1:
        return Search([], 0, reading=reading)
    expression, total, every = _choose(index, reading, where)
    scores = _scores(index, reading, expression, where, offset + limit)
    rows = folder_index.rows
    hits = [
        DocumentHit(row, float(f"{score:.4g}")) for key, score in scores.items() if (row := rows.get(key)) is not None
    ]
    hits.sort(key=lambda hit: (-hit.score, hit.row.key))
    return Search(hits[offset : offset + limit], total, every, reading.suggestion, reading)


def _choose(index: Index, reading: ParsedQuery, where: Mapping[str, str]) -> tuple[str, int, bool]:
    """Return the expression for the documents to rank, their number, and whether each has every word.

    A short query with enough documents that have every word finds these, and those with one of its words in the title
    or in a heading.
    """
    full = reading.wide(True)
    total = index.count(full, where)
    if len(reading.words) == 1:
        return full, total, True
    if total < ENOUGH_FULL_MATCHES or len(reading.words) > MAX_SHORT_QUERY_WORDS:
        some = reading.wide(False)
        return some, index.count(some, where), False
    titled = f"({full}) OR {only(reading.wide(False), ('title', 'headings'))}"
    all_of_them = index.count(titled, where)
    return titled, all_of_them, all_of_them == total


def _scores(
    index: Index, reading: ParsedQuery, expression: str, where: Mapping[str, str], wanted: int
) -> dict[str, float]:
    """Return the scores of the documents that are best by their texts, at least `wanted` if so many match."""
    max_documents = wanted + MAX_RANKED
    parts = [
        (0.5, _shares(index.find_documents(expression, max_documents, where))),
        (1.5, _shares(index.find_documents(reading.narrow(False), max_documents, where))),
        (0.4, _shares(index.find_documents(reading.wide(False), max_documents, where, ("title",)))),
        *_identifiers(index, reading, where, max_documents),
        *_coverage(index, reading, where),
    ]
    weights = _weigh_stems(index, reading, where)
    return {
        key: sum(weight * part.get(key, 0.0) for weight, part in parts) + share_of_name(key, weights)
        for key in parts[0][1]
    }


def _weigh_stems(index: Index, reading: ParsedQuery, where: Mapping[str, str]) -> dict[str, float]:
    """Return the stems of the query's words; those of rare words weigh more. None for a single identifier.

    A document is not named after a part of an identifier; its headings decide.
    """
    found: dict[str, float] = {}
    if len(reading.words) == len(reading.identifiers()) == 1:
        return found
    for word in reading.words:
        rarity = _rarity(len(index), len(index.having(word.wide, where)))
        found |= {one: max(rarity, found.get(one, 0.0)) for one in list_stems(word.term.text)}
    return found


def _rarity(documents: int, having: int) -> float:
    return math.log(1 + documents / max(having, 0.5))


def _identifiers(
    index: Index, reading: ParsedQuery, where: Mapping[str, str], max_documents: int
) -> Iterator[tuple[float, dict[str, float]]]:
    """Yield weights and scores for whole identifiers: how often a document has them, and what its headings say.

    A heading that is an identifier and nothing else counts most: the document describes it there.
    """
    exact = reading.exact()
    if exact is None:
        return
    yield 0.5, dict.fromkeys(index.having(exact, where), 1.0)
    yield 0.5, _shares(index.find_documents(exact, max_documents, where))
    for name, expression in reading.identifiers().items():
        texts = index.texts(expression, ("title", "headings"), max_documents, where)
        shares = {
            key: max(share_of_heading(line, name) for text in both for line in text.split("\n"))
            for key, both in texts.items()
        }
        yield 3.0 / len(reading.words) ** 2, shares


def _shares(hits: Sequence[Scored]) -> dict[str, float]:
    """Return scores as shares of the best score."""
    best = max((hit.score for hit in hits), default=1.0) or 1.0
    return {hit.key: hit.score / best for hit in hits}


def _coverage(index: Index, reading: ParsedQuery, where: Mapping[str, str]) -> Iterator[tuple[float, dict[str, float]]]:
    """Yield weight and share of the query in each document, in its text and in its title; rare words weigh more."""
    count = len(index)
    having = [index.having(word.wide, where) for word in reading.words]
    rarity = [_rarity(count, len(found)) for found in having]
    whole = sum(rarity) or 1.0
    titled = [index.having(word.wide, where, ("title",)) for word in reading.words]
    plainly = [index.having(word.narrow, where, ("title",)) for word in reading.words]
    for weight, power, documents in ((1.5, 1, having), (1.0, 1, titled), (0.5, 2, plainly)):
        shares: dict[str, float] = {}
        for share, keys in zip(rarity, documents, strict=True):
            for key in keys:
                shares[key] = shares.get(key, 0.0) + share / whole
        yield weight, {key: share**power for key, share in shares.items()}


def _ask_index(folder_index: FolderIndex, seconds: float, ask: Callable[[Index], T]) -> T:
    """Ask the index; if it fails, replace it, fill it from the folder and ask again."""
    try:
        with folder_index.index.within_seconds(seconds):
            return ask(folder_index.index)
    except sqlite3.DatabaseError as problem:
        folder_index.replace(problem)
        folder_index.refresh()
        with folder_index.index.within_seconds(seconds):
            return ask(folder_index.index)


def _has_labels(row: DocumentRow, where: Mapping[str, str]) -> bool:
    top, group = group_of(row.key)
    return where.get("top", top) == top and where.get("grp", group) == group
