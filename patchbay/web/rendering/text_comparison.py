"""Compare two texts side by side: equal lines, changed lines, and changes within a line.

Equal lines far from a change are folded into one row with their number. A text that is too long is not compared; the
result says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import zip_longest
from typing import Literal

CONTEXT_LINES = 3
"""Unchanged lines before and after a change."""

MAX_COMPARED_LINES = 4_000
"""Lines of a compared text, at most."""

MAX_MARKED_LINE_CHARACTERS = 300
"""Characters of a line in which changes are marked, at most."""

MAX_MARKED_LINES = 500
"""Changed lines in which changes are marked, at most; with more changed lines only the lines are marked."""

_WORDS = re.compile(r"\w+|\s+|.")

Kind = Literal["same", "changed", "removed", "added", "folded"]
Piece = tuple[bool, str]
"""Whether this part of a line changed, and its text."""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One row: line numbers from 1, None on the side without a line. `many` is the number of folded lines."""

    kind: Kind
    old: int | None = None
    left: tuple[Piece, ...] = ()
    new: int | None = None
    right: tuple[Piece, ...] = ()
    many: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two texts: rows, and numbers of added and removed lines. `problem` explains missing rows."""

    rows: tuple[ComparedRow, ...] = ()
    added: int = 0
    removed: int = 0
    problem: str | None = None

    @property
    def same(self) -> bool:
        return not self.rows and self.problem is None


@lru_cache(maxsize=64)
def compare(old: str, new: str) -> Comparison:
    """Compare two texts line by line; equal texts give no rows."""
    if old == new:
        return Comparison()
    before, after = (text.split("\n") if text else [] for text in (old, new))
    if max(len(before), len(after)) > MAX_COMPARED_LINES:
        return Comparison(
            problem=f"one of the texts has more than {MAX_COMPARED_LINES} lines: it is too long to compare"
        )
    rows: list[ComparedRow] = []
    codes = SequenceMatcher(None, before, after).get_opcodes()
    within = sum(min(j - i, m - k) for tag, i, j, k, m in codes if tag != "equal") <= MAX_MARKED_LINES
    for tag, i, j, k, m in codes:
        if tag == "equal":
            rows += _unchanged_rows(
                before[i:j], i, k, first=i == 0 and k == 0, last=j == len(before) and m == len(after)
            )
        else:
            rows += _changed_rows(before[i:j], after[k:m], i, k, within)
    added = sum(row.kind in ("added", "changed") for row in rows)
    return Comparison(tuple(rows), added, sum(row.kind in ("removed", "changed") for row in rows))


def _unchanged_rows(lines: Sequence[str], old: int, new: int, first: bool, last: bool) -> Iterator[ComparedRow]:
    """Rows of equal lines; lines far from any change become one folded row."""
    head, tail = (0 if first else CONTEXT_LINES), (0 if last else CONTEXT_LINES)
    hidden = len(lines) - head - tail
    # A folded row for one line would need as much space as the line.
    keep = range(len(lines)) if hidden < 2 else range(head)
    for place in keep:
        yield _unchanged_row(lines[place], old + place, new + place)
    if hidden >= 2:
        yield ComparedRow("folded", many=hidden)
        for place in range(len(lines) - tail, len(lines)):
            yield _unchanged_row(lines[place], old + place, new + place)


def _unchanged_row(line: str, old: int, new: int) -> ComparedRow:
    return ComparedRow("same", old + 1, ((False, line),), new + 1, ((False, line),))


def _changed_rows(
    before: Sequence[str], after: Sequence[str], old: int, new: int, within: bool
) -> Iterator[ComparedRow]:
    for place, (left, right) in enumerate(zip_longest(before, after)):
        if right is None:
            yield ComparedRow("removed", old + place + 1, ((False, left),))
        elif left is None:
            yield ComparedRow("added", None, (), new + place + 1, ((False, right),))
        else:
            lefts, rights = _mark_changes(left, right) if within else (((False, left),), ((False, right),))
            yield ComparedRow("changed", old + place + 1, lefts, new + place + 1, rights)


def _mark_changes(left: str, right: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Mark the changes between two lines; mark nothing when the lines have little in common."""
    plain = ((False, left),), ((False, right),)
    if max(len(left), len(right)) > MAX_MARKED_LINE_CHARACTERS:
        return plain
    matcher = SequenceMatcher(None, before := _WORDS.findall(left), after := _WORDS.findall(right), autojunk=False)
    if matcher.ratio() < 0.5:
        return plain
    codes = matcher.get_opcodes()
    lefts = tuple((tag != "equal", "".join(before[i:j])) for tag, i, j, _, _ in codes if i < j)
    return lefts, tuple((tag != "equal", "".join(after[k:m])) for tag, _, _, k, m in codes if k < m)
