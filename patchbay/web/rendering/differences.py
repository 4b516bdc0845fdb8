"""The differences between two states of the hub, by name: texts compared line by line, other fields as sentences.

A state is the rows of a boot image by full name (`past_roots.image_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.boot.image import cid_in_definition
from patchbay.errors import ContentError
from patchbay.store import Store
from patchbay.web.history.past_roots import ChangedName, compare_rows
from patchbay.web.rendering.content_kinds import decode_text
from patchbay.web.rendering.highlighting import format_readable
from patchbay.web.rendering.text_comparison import Comparison, compare

Row = Mapping[str, Any]
Rows = Mapping[str, Row]

MAX_COMPARED_NAMES = 20
"""Names with compared contents on one page, at most; other names are only listed."""


@dataclass(frozen=True, slots=True)
class ComparedText:
    """One compared text of a name, such as a definition, with its old and new CID where it has one."""

    label: str
    old: str | None
    new: str | None
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Difference:
    """One name that differs, with sentences and compared texts."""

    changed: ChangedName
    sentences: tuple[str, ...]
    parts: tuple[ComparedText, ...]


def find_differences(store: Store, before: Rows, after: Rows) -> list[Difference]:
    """The differences between two states, by name."""
    found = []
    for number, changed in enumerate(compare_rows(before, after)):
        old, new = before.get(changed.name, {}), after.get(changed.name, {})
        parts = tuple(_compare_parts(store, old, new)) if number < MAX_COMPARED_NAMES else ()
        found.append(Difference(changed, tuple(_sentences(old, new)), parts))
    return found


def is_boot_image(data: bytes) -> bool:
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
            yield f"kind changed from {old.get('kind')} to {new.get('kind')}"
        if old.get("enabled", True) != new.get("enabled", True):
            yield "switched on" if new.get("enabled", True) else "switched off"


def _compare_parts(store: Store, old: Row, new: Row) -> Iterator[ComparedText]:
    for label, key in (("Definition", "definition_cid"), ("Configuration", "config_cid"), ("Content", "cid")):
        if old.get(key) != new.get(key):
            yield ComparedText(label, old.get(key), new.get(key), _compare_cids(store, old.get(key), new.get(key)))
    if old.get("definition") != new.get("definition"):
        cids = [cid_in_definition(row.get("definition", "")) for row in (old, new)]
        texts = [
            _text(store, cid) if cid else row.get("definition", "") for row, cid in zip((old, new), cids, strict=True)
        ]
        yield ComparedText("Value", cids[0], cids[1], _compare_texts(texts[0], texts[1]))


def _compare_cids(store: Store, old: str | None, new: str | None) -> Comparison:
    return _compare_texts(_text(store, old), _text(store, new))


def _compare_texts(old: str | None, new: str | None) -> Comparison:
    if old is None or new is None:
        return Comparison(problem="one of the contents is not text, or is not in the store")
    return compare(format_readable(old), format_readable(new))


def _text(store: Store, cid: str | None) -> str | None:
    """The text of a CID; empty for no CID; None when the content is missing or is not text."""
    if cid is None:
        return ""
    try:
        return decode_text(store.blobs.get(cid))
    except ContentError:
        return None
