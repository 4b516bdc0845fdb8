"""Approvals as a JSON document: exported by one hub, imported by another.

    {"format": "patchbay/approvals", "version": 1, "approvals": [
      {"server": "time", "kind": "tool", "name": "now", "cid": "bafkrei...", "digest": "sha256:..."}]}

An imported approval is for exactly the bytes of its CID. Entries that the server lists with these bytes are approved at
once; other approvals wait until the server lists such bytes. A document with one wrong part changes nothing, and so
does one whose digest of an entry is not that of the listed bytes with this CID.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import orjson

from patchbay.descriptors import NAME
from patchbay.errors import InvalidParams, ParseError, StaleUpdate
from patchbay.jsonrpc import parse_file
from patchbay.pins.documents import (
    ItemKey,
    PinDocument,
    PinnedItem,
    PinsUnreadable,
    checked_list,
    checked_object,
    describe_key,
    parse_cid,
    parse_digest,
    parse_key,
)
from patchbay.pins.records import load_pins, pinned_servers
from patchbay.store import Store
from patchbay.topics import NAMES_CHANGED, PINS

FORMAT, VERSION = "patchbay/approvals", 1
MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
MAX_APPROVALS = 100_000
MAX_NAME_CHARACTERS = 2048
"""Characters of the name of an entry; no server lists a longer one."""

_SERVER = re.compile(NAME)


@dataclass(frozen=True, slots=True)
class Approval:
    """One approval: these bytes of this entry of this server. `digest` and `body` are for readers and other tools."""

    server: str
    key: ItemKey
    cid: str
    digest: str = ""
    body: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the approval as a JSON object."""
        kind, name = self.key
        more = {name: value for name, value in (("digest", self.digest), ("body", self.body)) if value}
        return {"server": self.server, "kind": kind, "name": name, "cid": self.cid} | more


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: entries that are approved now, approvals that wait for such bytes, known ones."""

    approved: int = 0
    ready: int = 0
    known: int = 0


def export_approvals(store: Store, servers: Collection[str] = ()) -> bytes:
    """Return the approvals of these servers, or of all, as a JSON document. Raises InvalidParams for unreadable pins.

    Approvals that wait for such bytes are part of it.
    """
    rows: list[Approval] = []
    for server in sorted(servers or pinned_servers(store)):
        loaded = load_pins(store, server)
        if loaded.problem or loaded.document is None:
            raise InvalidParams(loaded.problem or f"there are no pins of a server {server!r:.140}")
        for key, item in loaded.document.items.items():
            if item.approved is not None:
                rows.append(Approval(server, key, item.approved.cid, item.approved.digest, item.approved.body))
        rows += [Approval(server, key, cid) for key, cids in loaded.document.ready.items() for cid in cids]
    rows.sort(key=lambda row: (row.server, row.key, row.cid))
    value = {"format": FORMAT, "version": VERSION, "approvals": [row.to_json() for row in rows]}
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def parse_approvals(data: bytes) -> list[Approval]:
    """Return the approvals of a document. Raises PinsUnreadable with the place of the first wrong part."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise PinsUnreadable(f"expected at most {MAX_DOCUMENT_BYTES} bytes; the document has {len(data)}")
    try:
        value = parse_file(data)
    except ParseError as problem:
        raise PinsUnreadable(f"expected JSON; {problem.message}") from problem
    fields = checked_object(value, "the document", ("format", "version", "approvals"))
    if fields["format"] != FORMAT or type(fields["version"]) is not int or fields["version"] != VERSION:
        raise PinsUnreadable(f'expected "format": "{FORMAT}" and "version": {VERSION}')
    rows = checked_list(fields["approvals"], "approvals")
    if len(rows) > MAX_APPROVALS:
        raise PinsUnreadable(f"approvals: expected at most {MAX_APPROVALS}; there are {len(rows)}")
    return [_parse_approval(row, f"approvals[{number}]") for number, row in enumerate(rows)]


def _parse_approval(value: Any, place: str) -> Approval:
    row = checked_object(value, place, ("server", "kind", "name", "cid"), ("digest", "body"))
    server = row["server"]
    if not isinstance(server, str) or not _SERVER.fullmatch(server):
        raise PinsUnreadable(f"{place}.server: expected the name of a server; this is {server!r:.140}")
    key = parse_key(row, place)
    if len(key[1]) > MAX_NAME_CHARACTERS:
        raise PinsUnreadable(f"{place}.name: expected at most {MAX_NAME_CHARACTERS} characters; it has {len(key[1])}")
    digest = parse_digest(row["digest"], f"{place}.digest") if "digest" in row else ""
    body = parse_cid(row["body"], f"{place}.body") if "body" in row else ""
    return Approval(server, key, parse_cid(row["cid"], f"{place}.cid"), digest, body)


def import_approvals(store: Store, data: bytes, who: str, why: str = "", server: str = "") -> Imported:
    """Take over the approvals of a document; `server` is the name here of the one server that it names.

    Raises PinsUnreadable, also for a digest that is not that of the listed bytes with this CID; InvalidParams for
    several servers beside `server`, or for pins here that cannot be read;
    StaleUpdate when a server listed something else meanwhile. Then nothing is changed.
    """
    rows = parse_approvals(data)
    if server:
        names = {row.server for row in rows}
        if len(names) > 1:
            raise InvalidParams(f"the document names {len(names)} servers; expected one for the name {server!r:.140}")
        if not _SERVER.fullmatch(server):
            raise InvalidParams(f"expected the name of a server; this is {server!r:.140}")
        rows = [replace(row, server=server) for row in rows]
    moves: dict[str, str | None] = {}
    expected: dict[str, str | None] = {}
    total = Imported()
    for name in sorted({row.server for row in rows}):
        loaded = load_pins(store, name)
        if loaded.problem:
            raise InvalidParams(loaded.problem)
        before = loaded.document or PinDocument()
        document, done = _add_approvals(before, [row for row in rows if row.server == name])
        total = Imported(total.approved + done.approved, total.ready + done.ready, total.known + done.known)
        if document != before:
            moves[PINS + name] = store.blobs.put(document.to_bytes())
            expected[PINS + name] = loaded.cid
    if moves:
        reason = f"import {total.approved + total.ready} approvals" + (f": {why}" if why else "")
        try:
            store.names.move(moves, who, reason, expected)
        except StaleUpdate as problem:
            raise StaleUpdate("a server listed something else meanwhile: import again") from problem
        store.bus.publish(NAMES_CHANGED)
    return total


def _check_digests(row: Approval, item: PinnedItem | None) -> None:
    """Raise PinsUnreadable when a digest of an approval is not that of the bytes here with its CID.

    People compare digests, and the hub approves by the CID.
    """
    for pin in (item.approved, item.seen) if item is not None else ():
        if pin is None or pin.cid != row.cid:
            continue
        for name, given, real in (("digest", row.digest, pin.digest), ("body", row.body, pin.body)):
            if given and given != real:
                what = f"the {name} of the {describe_key(row.key)} of {row.server}"
                raise PinsUnreadable(f"{what} is {given}; the bytes with the CID {row.cid} have {real or 'none'}")


def _add_approvals(document: PinDocument, rows: list[Approval]) -> tuple[PinDocument, Imported]:
    ready = dict(document.ready)
    approved: list[ItemKey] = []
    known = added = 0
    for row in rows:
        item = document.items.get(row.key)
        _check_digests(row, item)
        if item is not None and item.approved is not None and item.approved.cid == row.cid:
            known += 1
        elif item is not None and item.seen is not None and item.seen.cid == row.cid:
            approved.append(row.key)
        elif row.cid in ready.get(row.key, ()):
            known += 1
        else:
            ready[row.key] = ready.get(row.key, frozenset()) | {row.cid}
            added += 1
    found = replace(document, ready=ready).approve(approved)
    return found, Imported(len(approved), added, known)
