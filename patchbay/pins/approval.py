"""Approve what a server lists: one entry or all that wait, bound to the bytes that were shown.

An approval is a change of the document of pins with an author and a reason; it lapses when the bytes change. Every
process of the hub serves the approved entries after its next look at the store, which the bus announces.
"""

from __future__ import annotations

from collections.abc import Collection

from patchbay.errors import InvalidParams, StaleUpdate, UnknownServer
from patchbay.pins.documents import DIGEST_PREFIX, ItemKey, Pin, PinDocument, PinnedItem, describe_key
from patchbay.pins.records import LoadedPins, load_pins, pinned_servers, write_pins
from patchbay.store import Store
from patchbay.topics import NAMES_CHANGED


def load_pinned_server(store: Store, server: str) -> LoadedPins:
    """Return the pins of a server. Raises UnknownServer for a server without pins."""
    loaded = load_pins(store, server)
    if loaded.document is None:
        known = ", ".join(pinned_servers(store)[:20]) or "none yet"
        raise UnknownServer(f"there are no pins of a server {server!r:.140}; servers with pins: {known}")
    return loaded


def parse_item(text: str) -> ItemKey:
    """Return the entry that a text names: `NAME` or `tool:NAME`, `prompt:NAME`, `template:URI`, `introduction`."""
    kind, colon, name = text.partition(":")
    if text == "introduction":
        return "introduction", ""
    if colon and name and kind in ("prompt", "template", "tool", "event"):
        return kind, name  # type: ignore[return-value]
    return "tool", text


def format_item(key: ItemKey) -> str:
    """Return the text that names an entry, as `parse_item` reads it."""
    if key[0] == "introduction":
        return key[0]
    return key[1] if key[0] == "tool" and ":" not in key[1] else ":".join(key)


def approve(
    store: Store,
    server: str,
    who: str,
    why: str = "",
    keys: Collection[ItemKey] | None = None,
    digest: str = "",
    shown: str | None = None,
) -> dict[ItemKey, Pin]:
    """Approve these entries of a server, or all that wait; return them with their pins.

    `digest` is the CID or the SEP-1766 digest that the one entry must have. `shown` is the CID of the document that
    the approver saw. Raises UnknownServer; InvalidParams for an entry that does not wait, or has another digest;
    StaleUpdate when the server listed something else meanwhile.
    """
    loaded = load_pinned_server(store, server)
    document = loaded.document
    assert document is not None
    if shown is not None and shown != loaded.cid:
        raise StaleUpdate(f"{server} listed something else meanwhile: look at its changes again")
    wanted = list(document.waiting if keys is None else dict.fromkeys(keys))
    if not wanted:
        raise InvalidParams(f"nothing of {server} waits for approval")
    for key in wanted:
        _check_waiting(server, document, key)
    if digest:
        _check_digest(server, document, wanted, digest)
    reason = _describe(document, wanted) + (f": {why}" if why else "")
    try:
        write_pins(store, server, document.approve(wanted), loaded.cid, who, reason)
    except StaleUpdate as problem:
        raise StaleUpdate(f"{server} listed something else meanwhile: look at its changes again") from problem
    store.bus.publish(NAMES_CHANGED)
    return {key: pin for key in wanted if (pin := document.items[key].seen) is not None}


def _check_waiting(server: str, document: PinDocument, key: ItemKey) -> None:
    if key in document.waiting:
        return
    waiting = ", ".join(format_item(each) for each in list(document.waiting)[:20]) or "nothing"
    raise InvalidParams(f"the {describe_key(key)!s:.200} of {server} does not wait for approval; waiting: {waiting}")


def _check_digest(server: str, document: PinDocument, wanted: list[ItemKey], digest: str) -> None:
    if len(wanted) != 1:
        raise InvalidParams(f"expected one entry for a digest; {len(wanted)} of {server} wait: name one")
    seen = document.items[wanted[0]].seen
    assert seen is not None
    if digest not in (seen.cid, seen.digest, seen.digest.removeprefix(DIGEST_PREFIX)):
        raise InvalidParams(
            f"the {describe_key(wanted[0])} of {server} has the CID {seen.cid}"
            + (f" and the digest {seen.digest}" if seen.digest else "")
            + f", not {digest!r:.100}: nothing was approved"
        )


def _describe(document: PinDocument, keys: Collection[ItemKey]) -> str:
    """Return the words of the history: which entries, with which bytes."""
    shown = [f"{describe_key(key)} as {_cid(document.items[key])}" for key in list(keys)[:5]]
    more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""
    return f"approve {', '.join(shown)}{more}"


def _cid(item: PinnedItem) -> str:
    assert item.seen is not None
    return item.seen.cid
