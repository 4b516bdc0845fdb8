"""Who brought what a server reaches outside the hub: another server, a program, a folder.

Rules: only an operator brings these: a file in the watched folder, the boot image, the command line. A configuration
that came over HTTP can neither start a program, nor send what stands in the hub's environment anywhere, nor make the
hub ask an address of its choice.
Sources: issue 5 part 7; DESIGN sections 5 and 11; THREATS 1.8.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from patchbay.catalogue.rows import (
    ServerRow,
    parse_row,
)
from patchbay.errors import ContentError
from patchbay.kind import configured_kind
from patchbay.store import NameChange, Store
from patchbay.topics import MCPS, SERVERS

OPERATORS = frozenset({"start", "servers/", "command line"})
"""Who moves names on behalf of an operator: the import of a boot image, the watched folder, a command."""

PAGE = 500


def reaches_out(definition: bytes) -> bool:
    """Whether a definition mounts a server or a folder, which is served only where an operator brought it."""
    try:
        fields = orjson.loads(definition)
    except orjson.JSONDecodeError:
        return False
    return configured_kind(fields) is not None


def vouched(store: Store, row: ServerRow) -> bool:
    """Whether it was an operator who brought what this row mounts under this name.

    That is the definition of a server without code, and the configuration of one with code, which may be another's.
    """
    return any(
        move.who in OPERATORS and move.cid is not None and _brings(store, move, row)
        for name in (SERVERS + row.name, MCPS)
        for move in _past(store, name)
    )


def _past(store: Store, name: str) -> Iterator[NameChange]:
    before = None
    while moves := store.names.past(name, PAGE, before):
        yield from moves
        before = moves[-1].seq


def _brings(store: Store, move: NameChange, row: ServerRow) -> bool:
    assert move.cid is not None
    try:
        data = store.blobs.get(move.cid)
        if move.name != MCPS:
            return _mounting(parse_row(row.name, data)) == _mounting(row)
        text = data if data.lstrip()[:1] == b"{" else store.blobs.get(data.decode().strip())
        entry = orjson.loads(text).get(row.name)
    except (ContentError, ValueError, AttributeError):
        return False
    return isinstance(entry, dict) and entry.get("config_cid") == _mounting(row)


def _mounting(row: ServerRow) -> str | None:
    """The CID of the configuration that says what is mounted."""
    return row.definition_cid if row.is_configuration else row.config_cid
