"""What each root changed: neighbouring boot images compared, row by row.

Source: DESIGN section 4 (every change makes a new root: history, diff).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.store import Store
from patchbay.topics import ROOT

PARTS = ("servers", "variables", "templates")
MAX_NAMES_PER_CHANGE = 20
"""Names of one change that are told; the rest is a number."""


@dataclass(frozen=True, slots=True)
class ChangedName:
    """One name that a root added, changed or removed; `cid` of its content where the image says it."""

    verb: str
    name: str
    cid: str | None


@dataclass(frozen=True, slots=True)
class RootChange:
    """One root: its move's number, when it came (Unix seconds), who made it and why, and what it changed."""

    seq: int
    at: float
    cid: str | None
    who: str
    why: str
    changed: list[ChangedName]
    more: int


def changes(store: Store, limit: int, before: int | None = None) -> list[RootChange]:
    """`limit` roots, newest first, each compared with the one that came before it; older ones than `before`, a seq."""
    moves = store.names.past(ROOT, limit + 1, before)
    found = []
    for index, move in enumerate(moves[:limit]):
        earlier = moves[index + 1].cid if index + 1 < len(moves) else None
        every = difference(_rows(store, earlier), _rows(store, move.cid))
        found.append(
            RootChange(
                move.seq,
                move.at,
                move.cid,
                move.who,
                move.why,
                every[:MAX_NAMES_PER_CHANGE],
                max(0, len(every) - MAX_NAMES_PER_CHANGE),
            )
        )
    return found


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ChangedName]:
    """What differs between two maps of name to image row, sorted by name."""
    told = []
    for name in sorted({*before, *after}):
        if name not in after:
            told.append(ChangedName("removed", name, None))
        elif before.get(name) != after[name]:
            cid = after[name].get("definition_cid") or after[name].get("cid")
            told.append(ChangedName("changed" if name in before else "added", name, cid))
    return told


def _rows(store: Store, cid: str | None) -> Mapping[str, Any]:
    return {} if cid is None else rows_of(store.blobs.get(cid))


def rows_of(image: bytes) -> Mapping[str, Any]:
    """The rows of a boot image by full name (`servers/echo`)."""
    document = orjson.loads(image)
    return {f"{part}/{row['name']}": row for part in PARTS for row in document.get(part, [])}
