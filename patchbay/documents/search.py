"""Searches a library: the documents that match a query, best first.

A search finds the documents with every word of the query, in any form; if these are few, or the query is a question,
also the documents with some of its words. Words in a title have the highest weight; exact words count more than other
forms, rare words more than common words, a whole identifier more than its parts. A word that no document has is
replaced by its probable correction. `*` or an empty query gives every document by title.

With a model, documents near the query's meaning count too, unless the query asks for exact words and these are found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from patchbay.documents.file_names import list_stems, share_of_name
from patchbay.documents.headings import share_of_heading
from patchbay.documents.index import Document, DocumentRow, FolderIndex, group_of
from patchbay.documents.passages import Match, passages
from patchbay.embeddings.fusion import fused_scores
from patchbay.errors import WrongArguments
from patchbay.fulltext.exactness import asks_for_words
from patchbay.fulltext.index import Index, only
from patchbay.fulltext.index import IndexHit as Scored
from patchbay.fulltext.query import ParsedQuery
from patchbay.sqlite import sqlite3

if TYPE_CHECKING:
    from patchbay.embeddings.nearest import Near

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

MEANING_WEIGHT = 0.2
"""Weight of the nearest section beside the words. Of 0.1 to 0.5, the smallest of the best for the first set of known
questions (`benchmarks/search.py`)."""

EMPTY_QUERY = ParsedQuery(())
"""A query without words."""

Why = Literal["", "words", "meaning", "both"]
"""Why a document was found; empty for a search without a model."""

MayFind = Callable[[str], bool]
"""Whether a document, by its path, may be found by meaning."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DocumentHit:
    """A matching document. A higher `score` is better; scores are comparable only within one search.

    `near` is the number of the nearest section (documents/sections.py), for a document near the query's meaning.
    """

    row: DocumentRow
    score: float
    why: Why = ""
    near: int | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """The result of a search, from an offset on.

    `total` is the number of matching documents, `every` says that each has all the words, `suggestion` is the probably
    intended query, `reading` the parsed query. `by_meaning` is the number of documents that have none of the words.
    """

    hits: list[DocumentHit]
    total: int
    every: bool = True
    suggestion: str | None = None
    reading: ParsedQuery = EMPTY_QUERY
    by_meaning: int = 0


def may_find_all(path: str) -> bool:
    """Allow every document."""
    return True


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
    may_find: MayFind = may_find_all,
) -> Search:
    """Return the documents that match a query and have these labels (`top`, `grp`), at most `limit` from `offset` on.

    Only documents that `may_find` allows, by path, are ranked by meaning; the caller filters those found by words.
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

    def ask(index: Index) -> Search:
        return _search(folder_index, index, query, where, limit, offset, may_find)

    return _ask_index(folder_index, seconds, ask)


def matches(folder_index: FolderIndex, query: str, document: Document) -> list[Match]:
    """Return the lines of a document with words of a query, in order; none for a query that matches every document.

    Raises WrongArguments as `search` does, TimedOut after MAX_SEARCH_SECONDS.
    """
    if is_all(query):
        return []
    reading = _ask_index(folder_index, MAX_SEARCH_SECONDS, lambda index: index.read(query))
    return list(passages(reading, document.front.body, document.front.lines).lines)


def _search(
    folder_index: FolderIndex,
    index: Index,
    query: str,
    where: Mapping[str, str],
    limit: int,
    offset: int,
    may_find: MayFind,
) -> Search:
    reading = index.read(query)
    if not reading.words or limit < 1:
        return Search([], 0, reading=reading)
    expression, total, every = _choose(index, reading, where)
    rows = folder_index.rows
    is_exact = total > 0 and asks_for_words(query)
    near = _find_near(folder_index, query, is_exact, partial(_may_find, rows, where, may_find))
    worded = index.having(expression, where) if near is not None else set[str]()
    scores = _scores(index, reading, expression, where, offset + limit)
    if near:
        scores = _fuse(rows, query, scores, near)
    hits = []
    for key, score in scores.items():
        if (row := rows.get(key)) is not None:
            section = near[key].section if near and key in near else None
            hits.append(DocumentHit(row, float(f"{score:.4g}"), _explain(near, worded, key), section))
    hits.sort(key=lambda hit: (-hit.score, hit.row.key))
    others = len((near or {}).keys() - worded)
    found = hits[offset : offset + limit]
    return Search(found, total + others, every and not others, reading.suggestion, reading, others)


def _find_near(folder_index: FolderIndex, query: str, is_exact: bool, may_find: MayFind) -> dict[str, Near] | None:
    """Return the documents near the meaning of a query, by path; None without a model.

    A query of exact words that documents have is near none. `may_find` decides before the documents are ranked.
    """
    meaning = folder_index.meaning
    if not meaning.is_possible:
        return None
    return {} if is_exact else {near.key: near for near in meaning.find(query, may_find)}


def _may_find(rows: Mapping[str, DocumentRow], where: Mapping[str, str], allows: MayFind, key: str) -> bool:
    """Whether a document exists, has these labels, and is allowed."""
    row = rows.get(key)
    return row is not None and (not where or _has_labels(row, where)) and allows(key)


def _fuse(
    rows: Mapping[str, DocumentRow], query: str, scores: Mapping[str, float], near: Mapping[str, Near]
) -> dict[str, float]:
    """Return the scores by words and by meaning together; a title that is the query stays first."""
    fused = fused_scores(scores, {key: one.cosine for key, one in near.items()}, MEANING_WEIGHT)
    best = max(scores.values(), default=0.0)
    for key in scores:
        if key in rows and rows[key].title.casefold() == query.strip().casefold():
            fused[key] += best
    return fused


def _explain(near: Mapping[str, Near] | None, worded: set[str], key: str) -> Why:
    if near is None:
        return ""
    if key not in near:
        return "words"
    return "both" if key in worded else "meaning"


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
