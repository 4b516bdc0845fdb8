"""Compare what a server lists with its pins, and record it: first sight, changes, removals.

The entries that a server lists at first sight are approved. Later entries with other bytes, and entries with new names,
wait for approval; with `follow` they are approved at once. Bytes that were approved before they were listed (an import)
are approved when they are listed, and then nothing is approved at first sight.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import orjson

from patchbay.cid import cid_of
from patchbay.client.contracts.canonical_json import ContractError
from patchbay.errors import ContentError, StaleUpdate
from patchbay.pins.documents import (
    INTRODUCTION,
    Changes,
    ItemKey,
    Pin,
    PinDocument,
    PinnedItem,
    Wire,
    describe_key,
    encode_wire,
    make_pin,
)
from patchbay.pins.records import load_pins, write_pins
from patchbay.store import Store

log = logging.getLogger(__name__)

MAX_ITEMS = 20_000
"""Maximum number of entries of one document. Beyond it the entries go first that were not listed for the longest."""

MAX_NAMED_ITEMS = 5
"""Maximum number of entries that one row of the history names for each kind of change."""

KNOWN_FIELDS = frozenset(
    (
        *("name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "execution", "_meta"),
        *("arguments", "uriTemplate", "mimeType", "instructions"),
    )
)
"""Fields of descriptors in the MCP specification (server/tools, server/prompts, server/resources)."""

EFFECTS: Mapping[Changes, str] = {
    "hold": "held until it is approved",
    "tell": "served, not approved",
    "follow": "approved by the setting follow",
}

SETTINGS: Mapping[Changes, str] = {
    "hold": "changed tools now wait for an approval",
    "tell": "changed tools are now served before an approval",
    "follow": "changed tools are now approved at once",
}
"""What the history says when only the setting `changes` is another one."""


@dataclass(slots=True)
class Observation:
    """One comparison. `rows` are the entries with other bytes; the lists hold words for the history."""

    document: PinDocument
    blobs: list[bytes] = field(default_factory=list)
    rows: dict[ItemKey, str | None] = field(default_factory=dict)
    first: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @property
    def reason(self) -> str:
        """What was observed, as a sentence for the history."""
        effect = EFFECTS[self.document.changes]
        parts = (
            ("recorded at the first connection", self.first, ""),
            ("changed", self.changed, f" ({effect})"),
            ("approved by an import", self.imported, ""),
            ("listed again as approved", self.returned, ""),
            ("no longer listed", self.removed, ""),
        )
        found = [f"{words}: {_join_words(each)}{end}" for words, each, end in parts if each]
        return "; ".join(found) or SETTINGS[self.document.changes]


def observe(
    store: Store,
    server: str,
    listed: Mapping[ItemKey, Wire],
    changes: Changes,
    who: str,
    source_of: Callable[[ItemKey], str] = lambda key: "",
) -> bool:
    """Record what a server lists now; return whether its pins changed.

    `source_of` returns the part of the server that an entry comes from; each part has its own first sight. A server
    whose pins cannot be read is not recorded: its last good pins stay in force.
    """
    while True:
        loaded = load_pins(store, server)
        if loaded.problem:
            log.warning("%s", loaded.problem)
            return False
        before = loaded.document or PinDocument(changes)
        found = _compare(store, before, listed, changes, source_of)
        if found.document == before and (loaded.document is not None or not listed):
            return False
        store.blobs.put_many(found.blobs)
        try:
            write_pins(store, server, found.document, loaded.cid, who, found.reason, found.rows)
        except StaleUpdate:
            continue  # another process recorded in the meantime
        if found.changed and changes != "follow":
            log.warning(
                "the server %s changed what it lists: %s (%s); see /pins/%s or: patchbay pins list %s",
                *(server, _join_words(found.changed), EFFECTS[changes], server, server),
            )
        return True


def _compare(
    store: Store,
    before: PinDocument,
    listed: Mapping[ItemKey, Wire],
    changes: Changes,
    source_of: Callable[[ItemKey], str],
) -> Observation:
    items, ready = dict(before.items), dict(before.ready)
    found = Observation(before)
    for key, wire in listed.items():
        data = encode_wire(wire)
        item = items.get(key, PinnedItem(None, None))
        if item.seen is not None and item.seen.cid == cid_of(data):
            if changes == "follow" and item.is_waiting:
                items[key] = PinnedItem(item.seen, item.seen)
            continue
        pin = _make_pin(key, wire, found)
        if pin is None:
            continue
        found.blobs.append(data)
        found.rows[key] = pin.cid
        is_first = key not in before.items and source_of(key) not in before.sources and not before.ready
        approved = _approve(store, key, item, pin, wire, is_first, changes, ready, found)
        items[key] = PinnedItem(approved, pin)
    for key, item in before.items.items():
        if key not in listed and item.seen is not None:
            found.removed.append(describe_key(key))
            items[key] = PinnedItem(item.approved, None)
            if item.approved is None:
                # It was never approved: nothing is left of it but its history.
                found.rows[key] = None
                del items[key]
    # Before it lists anything, a server is not yet at first sight: its lists may have failed.
    sources = before.sources | {source_of(key) for key in listed if key != INTRODUCTION}
    found.document = replace(before, changes=changes, sources=sources, items=_bounded(items), ready=ready)
    return found


def _approve(
    store: Store,
    key: ItemKey,
    item: PinnedItem,
    pin: Pin,
    wire: Wire,
    is_first: bool,
    changes: Changes,
    ready: dict[ItemKey, frozenset[str]],
    found: Observation,
) -> Pin | None:
    """Return the approved pin of an entry with other bytes than before."""
    if item.approved is not None and item.approved.cid == pin.cid:
        found.returned.append(describe_key(key))
        return item.approved
    if pin.cid in ready.get(key, ()):
        del ready[key]
        found.imported.append(describe_key(key))
        return pin
    if is_first:
        found.first.append(describe_key(key))
        return pin
    fields = list(_changed_fields(store, item.approved, wire))
    found.changed.append(f"{describe_key(key)} [{', '.join(fields) if item.approved else 'new'}]")
    return pin if changes == "follow" else item.approved


def _make_pin(key: ItemKey, wire: Wire, found: Observation) -> Pin | None:
    try:
        return make_pin(key[0], wire)
    except ContractError as problem:
        log.warning("the %s cannot be pinned: %s", describe_key(key), problem)
        return None


def _changed_fields(store: Store, approved: Pin | None, wire: Wire) -> Iterator[str]:
    """Yield the fields of a descriptor that differ from the approved one; all when that cannot be read.

    Unknown fields have no names here: a server chooses them, and the history and the log are for people.
    """
    try:
        old = orjson.loads(store.blobs.get(approved.cid)) if approved is not None else {}
    except (ContentError, orjson.JSONDecodeError):
        old = {}
    changed = {name for name in {*old, *wire} if old.get(name) != wire.get(name)}
    yield from sorted(changed & KNOWN_FIELDS)
    if changed - KNOWN_FIELDS:
        yield "other fields"


def _bounded(items: dict[ItemKey, PinnedItem]) -> dict[ItemKey, PinnedItem]:
    absent = [key for key, item in items.items() if item.seen is None]
    for key in absent[: max(0, len(items) - MAX_ITEMS)]:
        del items[key]
    return items


def _join_words(words: list[str]) -> str:
    shown = ", ".join(words[:MAX_NAMED_ITEMS])
    return f"{shown} and {len(words) - MAX_NAMED_ITEMS} more" if len(words) > MAX_NAMED_ITEMS else shown
