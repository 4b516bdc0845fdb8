"""Which servers an operator supplied: only those may reach another server, a program or a folder outside the hub.

An operator supplies a file in the watched folder, the boot image, or a command line. A configuration that came over
HTTP can neither start a program, nor send the hub's environment anywhere, nor make the hub request an address.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from patchbay.catalogue.servers.rows import (
    ServerRow,
    parse_row,
)
from patchbay.errors import ContentError
from patchbay.kind import configured_kind
from patchbay.pins.offers import WHO
from patchbay.store import NameChange, Store
from patchbay.topics import MCPS, SERVERS

OPERATORS = frozenset({"start", "servers/", "command line", WHO})
"""Authors of moves that count as an operator: import of a boot image, the watched folder, a command, the rooms."""

MOVES_PER_READ = 500


def reaches_outside(definition: bytes) -> bool:
    """Whether a definition mounts a server or a folder; it is served only when an operator supplied it."""
    try:
        fields = orjson.loads(definition)
    except orjson.JSONDecodeError:
        return False
    return configured_kind(fields) is not None


def is_from_operator(store: Store, row: ServerRow) -> bool:
    """Whether an operator supplied what this row mounts under this name.

    That is the definition of a server without code, and the configuration of one with code; the two may have different
    authors.
    """
    return any(
        move.who in OPERATORS and move.cid is not None and _supplies(store, move, row)
        for name in (SERVERS + row.name, MCPS)
        for move in _past_changes(store, name)
    )


def _past_changes(store: Store, name: str) -> Iterator[NameChange]:
    before = None
    while moves := store.names.past(name, MOVES_PER_READ, before):
        yield from moves
        before = moves[-1].seq


def _supplies(store: Store, move: NameChange, row: ServerRow) -> bool:
    assert move.cid is not None
    try:
        data = store.blobs.get(move.cid)
        if move.name != MCPS:
            return _mount_cid(parse_row(row.name, data)) == _mount_cid(row)
        text = data if data.lstrip()[:1] == b"{" else store.blobs.get(data.decode().strip())
        entry = orjson.loads(text).get(row.name)
    except (ContentError, ValueError, AttributeError):
        return False
    return isinstance(entry, dict) and entry.get("config_cid") == _mount_cid(row)


def _mount_cid(row: ServerRow) -> str | None:
    """Return the CID of the configuration that describes the mount."""
    return row.definition_cid if row.is_configuration else row.config_cid
