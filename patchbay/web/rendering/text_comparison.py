"""Two texts side by side: which lines are the same, which changed, and where within a line.

Rules: what is alike and far from a change is folded into one row that says how many lines it stands for; texts that are
too long to be compared in reasonable time are said to be, never half compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import zip_longest
from typing import Literal

AROUND = 3
"""Lines that are shown before and after a change."""

MOST_LINES = 4_000
"""Lines of the longest text that is compared."""

MOST_CHARACTERS = 300
"""Characters of the longest line within which a change is looked for."""

MOST_MARKED = 500
"""Changed lines within which changes are looked for; where there are more, what matters is which lines they are."""

_WORDS = re.compile(r"\w+|\s+|.")

Kind = Literal["same", "changed", "removed", "added", "folded"]
Piece = tuple[bool, str]
"""Whether this part of a line is what changed, and its text."""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One row: line numbers from 1, None on the side that has no such line. `many` lines are folded."""

    kind: Kind
    old: int | None = None
    left: tuple[Piece, ...] = ()
    new: int | None = None
    right: tuple[Piece, ...] = ()
    many: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two texts compared: rows, and how many lines were added and removed. `problem` says why there are no rows."""

    rows: tuple[ComparedRow, ...] = ()
    added: int = 0
    removed: int = 0
    problem: str | None = None

    @property
    def same(self) -> bool:
        return not self.rows and self.problem is None


@lru_cache(maxsize=64)
def compare(old: str, new: str) -> Comparison:
    """Two texts, line by line; no rows for equal ones."""
    if old == new:
        return Comparison()
    before, after = (text.split("\n") if text else [] for text in (old, new))
    if max(len(before), len(after)) > MOST_LINES:
        return Comparison(problem=f"one of them has more than {MOST_LINES} lines: too long to be compared here")
    rows: list[ComparedRow] = []
    codes = SequenceMatcher(None, before, after).get_opcodes()
    within = sum(min(j - i, m - k) for tag, i, j, k, m in codes if tag != "equal") <= MOST_MARKED
    for tag, i, j, k, m in codes:
        if tag == "equal":
            rows += _same(before[i:j], i, k, first=i == 0 and k == 0, last=j == len(before) and m == len(after))
        else:
            rows += _changed(before[i:j], after[k:m], i, k, within)
    added = sum(row.kind in ("added", "changed") for row in rows)
    return Comparison(tuple(rows), added, sum(row.kind in ("removed", "changed") for row in rows))


def _same(lines: Sequence[str], old: int, new: int, first: bool, last: bool) -> Iterator[ComparedRow]:
    """Lines that both have; those far from any change are one row."""
    head, tail = (0 if first else AROUND), (0 if last else AROUND)
    hidden = len(lines) - head - tail
    # A fold of one line would take as much room as the line.
    keep = range(len(lines)) if hidden < 2 else range(head)
    for place in keep:
        yield _both(lines[place], old + place, new + place)
    if hidden >= 2:
        yield ComparedRow("folded", many=hidden)
        for place in range(len(lines) - tail, len(lines)):
            yield _both(lines[place], old + place, new + place)


def _both(line: str, old: int, new: int) -> ComparedRow:
    return ComparedRow("same", old + 1, ((False, line),), new + 1, ((False, line),))


def _changed(before: Sequence[str], after: Sequence[str], old: int, new: int, within: bool) -> Iterator[ComparedRow]:
    for place, (left, right) in enumerate(zip_longest(before, after)):
        if right is None:
            yield ComparedRow("removed", old + place + 1, ((False, left),))
        elif left is None:
            yield ComparedRow("added", None, (), new + place + 1, ((False, right),))
        else:
            lefts, rights = _within(left, right) if within else (((False, left),), ((False, right),))
            yield ComparedRow("changed", old + place + 1, lefts, new + place + 1, rights)


def _within(left: str, right: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Two lines with what differs between them marked; unmarked when they have little in common."""
    plain = ((False, left),), ((False, right),)
    if max(len(left), len(right)) > MOST_CHARACTERS:
        return plain
    matcher = SequenceMatcher(None, before := _WORDS.findall(left), after := _WORDS.findall(right), autojunk=False)
    if matcher.ratio() < 0.5:
        return plain
    codes = matcher.get_opcodes()
    lefts = tuple((tag != "equal", "".join(before[i:j])) for tag, i, j, _, _ in codes if i < j)
    return lefts, tuple((tag != "equal", "".join(after[k:m])) for tag, _, _, k, m in codes if k < m)
