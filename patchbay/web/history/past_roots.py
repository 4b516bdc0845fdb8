"""The changes that each root made: compare each boot image with the one before, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.store import Store
from patchbay.topics import ROOT

PARTS = ("servers", "variables", "templates")
MAX_NAMES_PER_CHANGE = 20
"""Names of one change in the list; the others are only counted."""


@dataclass(frozen=True, slots=True)
class ChangedName:
    """One name that a root added, changed or removed. `cid` is its content, when the boot image has the CID."""

    verb: str
    name: str
    cid: str | None


@dataclass(frozen=True, slots=True)
class RootChange:
    """One root: sequence number, time (Unix seconds), author, reason and changes. `more` counts changes not listed."""

    seq: int
    at: float
    cid: str | None
    who: str
    why: str
    changed: list[ChangedName]
    more: int


def list_root_changes(store: Store, limit: int, before: int | None = None) -> list[RootChange]:
    """The newest `limit` roots before sequence number `before`, newest first, each compared with its predecessor."""
    moves = store.names.past(ROOT, limit + 1, before)
    found = []
    for index, move in enumerate(moves[:limit]):
        earlier = moves[index + 1].cid if index + 1 < len(moves) else None
        every = compare_rows(_rows(store, earlier), _rows(store, move.cid))
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


def compare_rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ChangedName]:
    """The differences between two maps from name to boot image row, sorted by name."""
    differences = []
    for name in sorted({*before, *after}):
        if name not in after:
            differences.append(ChangedName("removed", name, None))
        elif before.get(name) != after[name]:
            cid = after[name].get("definition_cid") or after[name].get("cid")
            differences.append(ChangedName("changed" if name in before else "added", name, cid))
    return differences


def _rows(store: Store, cid: str | None) -> Mapping[str, Any]:
    return {} if cid is None else image_rows(store.blobs.get(cid))


def image_rows(image: bytes) -> Mapping[str, Any]:
    """The rows of a boot image by full name (`servers/echo`)."""
    document = orjson.loads(image)
    return {f"{part}/{row['name']}": row for part in PARTS for row in document.get(part, [])}
