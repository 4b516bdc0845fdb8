"""Searching a library: the documents that fit, best first, each with the lines and the section that match.

Documents with every word of the query, in any form, are found; where they are few, or the query is a question, those
with some of its words too. Words in a title count most; words as they are written count more than their other forms,
rare words more than common ones, an identifier as it is written more than its parts. A word that no document has counts
as the word that it probably means. `*`, or nothing, is every document by title.
Sources: REQUIREMENTS JANE-8, JANE-17, JANE-C10, A-F3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from patchbay.documents.index import DocumentRow, FolderIndex, group_of
from patchbay.errors import WrongArguments
from patchbay.fulltext.index import Index
from patchbay.fulltext.index import IndexHit as Scored
from patchbay.fulltext.query import ParsedQuery
from patchbay.sqlite import sqlite3

ENOUGH_FULL_MATCHES = 5
"""With so many documents that have every word, no others are looked for."""

LONG = 3
"""A query of more words is a question: documents with some of its words are looked for too."""

MAX_RANKED = 200
"""How many documents are ranked by more than the words in their texts, beyond those that are asked for."""

MAX_SEARCH_SECONDS = 10.0
"""Seconds that the index is asked for one search; then the search ends with a sentence."""

MAX_QUERY_CHARACTERS = 4_000
"""Characters of a query."""

MAX_OFFSET = 1_000_000
"""Documents that a page of results leaves out at the beginning."""

NOTHING = ParsedQuery(())
"""A query without words."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DocumentHit:
    """A document that was found. `score` is more for better ones, and only comparable within one search."""

    row: DocumentRow
    score: float


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found, from one place in the list on.

    `total` is how many there are, `every` whether each has all the words, `suggestion` the query as it was probably
    meant, `reading` how the words were understood.
    """

    hits: list[DocumentHit]
    total: int
    every: bool = True
    suggestion: str | None = None
    reading: ParsedQuery = NOTHING


def is_all(query: str) -> bool:
    """Whether a query means every document."""
    return query.strip() in ("", "*")


def search(
    shelf: FolderIndex,
    query: str,
    where: Mapping[str, str],
    limit: int,
    offset: int = 0,
    seconds: float = MAX_SEARCH_SECONDS,
) -> Search:
    """The documents that fit a query and have these labels (`top`, `grp`), at most `limit` from `offset` on.

    The index is asked for at most `seconds`. Raises WrongArguments for a query or an offset beyond its bound, TimedOut
    for a search that takes longer.
    """
    if len(query) > MAX_QUERY_CHARACTERS:
        raise WrongArguments(f"the query has {len(query)} characters; expected at most {MAX_QUERY_CHARACTERS}")
    if not 0 <= offset <= MAX_OFFSET:
        raise WrongArguments(f"expected an offset from 0 to {MAX_OFFSET}")
    if is_all(query):
        chosen = [row for row in shelf.rows.values() if _fits(row, where)]
        chosen.sort(key=lambda row: (row.title.casefold(), row.key))
        return Search([DocumentHit(row, 0.0) for row in chosen[offset : offset + limit]], len(chosen))
    return _guarded(shelf, seconds, lambda index: _searched(shelf, index, query, where, limit, offset))


def _searched(
    shelf: FolderIndex, index: Index, query: str, where: Mapping[str, str], limit: int, offset: int
) -> Search:
    reading = index.read(query)
    if not reading.words or limit < 1:
        return Search([], 0, reading=reading)
    total = index.count(reading.wide(True), where)
    every = len(reading.words) == 1 or (total >= ENOUGH_FULL_MATCHES and len(reading.words) <= LONG)
    if not every:
        total = index.count(reading.wide(False), where)
    scores = _scores(index, reading, where, every, offset + limit)
    rows = shelf.rows
    hits = [
        DocumentHit(row, float(f"{score:.4g}")) for key, score in scores.items() if (row := rows.get(key)) is not None
    ]
    hits.sort(key=lambda hit: (-hit.score, hit.row.key))
    return Search(hits[offset : offset + limit], total, every, reading.suggestion, reading)


def _scores(index: Index, reading: ParsedQuery, where: Mapping[str, str], every: bool, wanted: int) -> dict[str, float]:
    """The scores of the documents that are best by their texts alone, at least `wanted` if there are so many."""
    most = wanted + MAX_RANKED
    parts = [
        (0.5, _shares(index.found(reading.wide(every), most, where))),
        (1.5, _shares(index.found(reading.narrow(False), most, where))),
        (0.4, _shares(index.found(reading.wide(False), most, where, ("title",)))),
        (0.5, dict.fromkeys(index.having(exact, where), 1.0) if (exact := reading.exact()) is not None else {}),
        *_covered(index, reading, where),
    ]
    return {key: sum(weight * part.get(key, 0.0) for weight, part in parts) for key in parts[0][1]}


def _shares(hits: Sequence[Scored]) -> dict[str, float]:
    """Scores as shares of the best one."""
    best = max((hit.score for hit in hits), default=1.0) or 1.0
    return {hit.key: hit.score / best for hit in hits}


def _covered(index: Index, reading: ParsedQuery, where: Mapping[str, str]) -> Iterator[tuple[float, dict[str, float]]]:
    """How much of the query a document has, in its text and in its title; rare words are more of it."""
    count = len(index)
    having = [index.having(word.wide, where) for word in reading.words]
    rarity = [math.log(1 + count / max(len(found), 0.5)) for found in having]
    whole = sum(rarity) or 1.0
    titled = [index.having(word.wide, where, ("title",)) for word in reading.words]
    plainly = [index.having(word.narrow, where, ("title",)) for word in reading.words]
    for weight, power, documents in ((1.5, 1, having), (1.0, 1, titled), (0.5, 2, plainly)):
        shares: dict[str, float] = {}
        for share, keys in zip(rarity, documents, strict=True):
            for key in keys:
                shares[key] = shares.get(key, 0.0) + share / whole
        yield weight, {key: share**power for key, share in shares.items()}


def _guarded(shelf: FolderIndex, seconds: float, ask: Callable[[Index], T]) -> T:
    """Ask the index; one that turns out to be damaged is made again from the disk first."""
    try:
        with shelf.index.within_seconds(seconds):
            return ask(shelf.index)
    except sqlite3.DatabaseError:
        shelf.rebuild()
        shelf.refresh()
        with shelf.index.within_seconds(seconds):
            return ask(shelf.index)


def _fits(row: DocumentRow, where: Mapping[str, str]) -> bool:
    top, group = group_of(row.key)
    return where.get("top", top) == top and where.get("grp", group) == group
