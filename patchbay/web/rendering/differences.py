"""What differs between two states of the hub, name by name: the texts side by side, and the rest as sentences.

A state is the rows of a boot image by full name (`past.rows_of`). Source: DESIGN section 4 (history, diff, rollback).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.boot.image import cid_in_definition
from patchbay.errors import ContentError
from patchbay.store import Store
from patchbay.web.pages.past_roots import ChangedName, difference
from patchbay.web.rendering.content_kinds import text_of
from patchbay.web.rendering.highlighting import readable
from patchbay.web.rendering.text_comparison import Comparison, compare

Row = Mapping[str, Any]
Rows = Mapping[str, Row]

MAX_COMPARED_NAMES = 20
"""Names whose contents are compared on one page; of the rest only the name is told."""


@dataclass(frozen=True, slots=True)
class ComparedText:
    """One text of a name, such as a definition: before and after, by CID where it has one, and compared."""

    label: str
    old: str | None
    new: str | None
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Difference:
    """One name that differs."""

    changed: ChangedName
    sentences: tuple[str, ...]
    parts: tuple[ComparedText, ...]


def differences(store: Store, before: Rows, after: Rows) -> list[Difference]:
    """Everything that differs between two states, by name."""
    found = []
    for number, changed in enumerate(difference(before, after)):
        old, new = before.get(changed.name, {}), after.get(changed.name, {})
        parts = tuple(_parts(store, old, new)) if number < MAX_COMPARED_NAMES else ()
        found.append(Difference(changed, tuple(_sentences(old, new)), parts))
    return found


def is_image(data: bytes) -> bool:
    """Whether a content is a boot image."""
    if data[:1] != b"{":
        return False
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return all(isinstance(document.get(part), list) for part in ("servers", "variables", "templates"))


def _sentences(old: Row, new: Row) -> Iterator[str]:
    if old and new:
        if old.get("kind") != new.get("kind"):
            yield f"its kind is {new.get('kind')} instead of {old.get('kind')}"
        if old.get("enabled", True) != new.get("enabled", True):
            yield "it is switched on" if new.get("enabled", True) else "it is switched off"


def _parts(store: Store, old: Row, new: Row) -> Iterator[ComparedText]:
    for label, key in (("Definition", "definition_cid"), ("Configuration", "config_cid"), ("Content", "cid")):
        if old.get(key) != new.get(key):
            yield ComparedText(label, old.get(key), new.get(key), _compared(store, old.get(key), new.get(key)))
    if old.get("definition") != new.get("definition"):
        cids = [cid_in_definition(row.get("definition", "")) for row in (old, new)]
        texts = [
            _text(store, cid) if cid else row.get("definition", "") for row, cid in zip((old, new), cids, strict=True)
        ]
        yield ComparedText("Value", cids[0], cids[1], _side_by_side(texts[0], texts[1]))


def _compared(store: Store, old: str | None, new: str | None) -> Comparison:
    return _side_by_side(_text(store, old), _text(store, new))


def _side_by_side(old: str | None, new: str | None) -> Comparison:
    if old is None or new is None:
        return Comparison(problem="one of them is no text, or not in the store")
    return compare(readable(old), readable(new))


def _text(store: Store, cid: str | None) -> str | None:
    """The text of a CID, empty for none; None when there is no such text."""
    if cid is None:
        return ""
    try:
        return text_of(store.blobs.get(cid))
    except ContentError:
        return None
