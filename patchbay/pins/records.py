"""Documents of pins in the store: the name `pins/<server>`, with a row in the history for each change of it.

A change also moves `pinned/<server>/<kind>/<name>` for each entry that is listed with other bytes, so that the history
has a row for each of them. A document that cannot be read leaves the last readable one in force, and `problem` says so:
then every change is held, and only an approval writes a new document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from patchbay.errors import ContentError
from patchbay.pins.documents import Changes, ItemKey, PinDocument, Wire, parse_document
from patchbay.store import NameChange, Store
from patchbay.topics import PINNED, PINS

MOVES_PER_READ = 100
"""Number of moves of a name that are read at once."""


@dataclass(frozen=True, slots=True)
class LoadedPins:
    """The pins in force. `cid` is where the name points; `problem` says why an earlier document is in force."""

    document: PinDocument | None = None
    cid: str | None = None
    problem: str = ""


def default_changes(access: str) -> Changes:
    """Return the value of `changes` for a mount without one, by the hub's mode of access.

    A hub of one person reports changes; every other hub holds them.
    """
    return "tell" if access == "personal" else "hold"


def load_pins(store: Store, server: str) -> LoadedPins:
    """Return the pins of a server that are in force; without a document when the server has none yet."""
    cid = store.names.get(PINS + server)
    if cid is None:
        return LoadedPins()
    try:
        return LoadedPins(parse_document(store.blobs.get(cid)), cid)
    except ContentError as problem:
        reason = f"the pins of {server} ({cid}) cannot be read: {problem.message}"
    for move in _moves(store, server):
        try:
            document = parse_document(store.blobs.get(move.cid)) if move.cid else None
        except ContentError:
            continue
        if document is not None:
            since = datetime.fromtimestamp(move.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            return LoadedPins(document, cid, f"{reason}; those of {since} are in force, and every change is held")
    return LoadedPins(PinDocument(), cid, f"{reason}; there is no earlier document, and everything is held")


def has_pins(store: Store, server: str) -> bool:
    """Whether a server has a document of pins, also one that cannot be read."""
    return store.names.get(PINS + server) is not None


def load_approved(store: Store, server: str, key: ItemKey) -> Wire:
    """Return the approved descriptor of an entry; empty without one that can be read."""
    document = load_pins(store, server).document
    item = document.items.get(key) if document is not None else None
    if item is None or item.approved is None:
        return {}
    try:
        found = orjson.loads(store.blobs.get(item.approved.cid))
    except (ContentError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def pinned_servers(store: Store) -> list[str]:
    """Return the names of all servers with pins, sorted."""
    return [name.removeprefix(PINS) for name in store.names.all(PINS)]


def pin_cids(store: Store) -> dict[str, str]:
    """Return the CID of each document, by server."""
    return {name.removeprefix(PINS): cid for name, cid in store.names.all(PINS).items()}


def write_pins(
    store: Store,
    server: str,
    document: PinDocument,
    before: str | None,
    who: str,
    why: str,
    listed: Mapping[ItemKey, str | None] | None = None,
) -> None:
    """Store a document, and the rows of entries with other bytes (their CIDs, or None), in one transaction.

    Raises StaleUpdate when the name does not point to `before` any more.
    """
    rows = {f"{PINNED}{server}/{kind}/{name}": cid for (kind, name), cid in (listed or {}).items()}
    cid = store.blobs.put(document.to_bytes())
    store.names.move({PINS + server: cid, **rows}, who, why, {PINS + server: before})


def _moves(store: Store, server: str) -> Iterator[NameChange]:
    before = None
    while moves := store.names.past(PINS + server, MOVES_PER_READ, before):
        yield from moves
        before = moves[-1].seq
