"""Searching a library: the documents that fit, best first, with the lines that match.

Documents with every word of the query are found; where they are few, those with some of its words too. Documents with
all the words in their title come first, whatever the others say. `*`, or nothing, is every document by title.
Sources: REQUIREMENTS JANE-8, JANE-17, JANE-C10, A-F3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from patchbay.fulltext import BEGIN, END, Index
from patchbay.library.shelf import Row, Shelf, group_of
from patchbay.sqlite import sqlite3

FEW = 5
"""With so many documents that have every word, no others are looked for."""

MOST = 200
"""How many documents are counted."""

LINES = 5
"""How many matching lines of one document are shown."""

WIDEST = 240
"""Characters of a line that are shown."""

T = TypeVar("T")

MARK = "**"
"""What stands around a match, before and after it."""


@dataclass(frozen=True, slots=True)
class Match:
    """A line of a document's text with its number, counted from 1; MARK stands around what was looked for."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found. `score` is more for better ones, and only comparable within one search."""

    row: Row
    score: float


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found. `total` counts at most MOST; `every` says whether each has all the words."""

    hits: list[Hit]
    total: int
    every: bool = True


def is_all(query: str) -> bool:
    """Whether a query means every document."""
    return query.strip() in ("", "*")


def search(shelf: Shelf, query: str, where: Mapping[str, str], limit: int) -> Search:
    """The documents that fit a query and have these labels (`top`, `grp`), at most `limit`."""
    if is_all(query):
        chosen = [row for row in shelf.rows.values() if _fits(row, where)]
        chosen.sort(key=lambda row: (row.title.casefold(), row.key))
        return Search([Hit(row, 0.0) for row in chosen[:limit]], len(chosen))
    scores, every = _guarded(shelf, lambda index: _scores(index, query, where))
    rows = [(row, score) for key, score in scores.items() if (row := shelf.get(key)) is not None]
    rows.sort(key=lambda found: (-found[1], found[0].key))
    return Search([Hit(row, float(f"{score:.4g}")) for row, score in rows[:limit]], len(rows), every)


def matches(shelf: Shelf, query: str, key: str, every: bool, before: int) -> list[Match]:
    """The first lines of a document's body that have a word of a query; `before` lines stand before the body."""
    marked = _guarded(shelf, lambda index: index.marked(query, key, "body", every))
    if marked is None:
        return []
    found = []
    for number, line in enumerate(marked.split("\n"), before + 1):
        if BEGIN in line:
            found.append(Match(number, _shown(line)))
            if len(found) == LINES:
                break
    return found


def _scores(index: Index, query: str, where: Mapping[str, str]) -> tuple[dict[str, float], bool]:
    hits, every = index.search(query, MOST, True, where), True
    if len(hits) < FEW:
        hits, every = index.search(query, MOST, False, where), False
    scores = {hit.key: hit.score for hit in hits}
    lift = max(scores.values(), default=0.0)
    for hit in index.search(query, MOST, True, where, within=("title",)):
        scores[hit.key] = max(scores.get(hit.key, 0.0), hit.score) + lift
    return scores, every


def _guarded(shelf: Shelf, ask: Callable[[Index], T]) -> T:
    """Ask the index; one that turns out to be damaged is made again from the disk first."""
    try:
        return ask(shelf.index)
    except sqlite3.DatabaseError:
        shelf.rebuild()
        shelf.refresh()
        return ask(shelf.index)


def _fits(row: Row, where: Mapping[str, str]) -> bool:
    top, group = group_of(row.key)
    return where.get("top", top) == top and where.get("grp", group) == group


def _shown(line: str) -> str:
    line = line.rstrip("\r")
    if len(line) > WIDEST:
        begin = max(0, line.index(BEGIN) - WIDEST // 4)
        cut = line[begin : begin + WIDEST]
        missing = cut.count(BEGIN) - cut.count(END)
        line = ("…" if begin else "") + cut + END * max(0, missing) + "…"
    return line.replace(BEGIN, MARK).replace(END, MARK).strip()
