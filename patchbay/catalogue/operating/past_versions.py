"""The versions of a server that the store has: their list, and how to put one back.

Versions have numbers from 1, the oldest change of the name `servers/NAME`, on; a change that removes the server has one
too. The contents of all versions stay in the store (content addressing), so that each can be compared and put back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchbay.catalogue.operating.switching import check_changeable, check_not_of_room
from patchbay.catalogue.saving import ServerEditor
from patchbay.catalogue.servers.rows import ServerRow, parse_row
from patchbay.catalogue.servers.server import unknown_server
from patchbay.cid import cid_of
from patchbay.errors import InvalidParams
from patchbay.store import NameChange, Store
from patchbay.suggestions import describe_unknown_name
from patchbay.topics import SERVERS

MOVES_PER_READ = 500
"""Changes of a name that one query of the store reads."""

MIN_CID_CHARACTERS = 8
"""Characters at the end of a content identifier that are enough to name a version."""


@dataclass(frozen=True, slots=True)
class PastVersion:
    """One version of a server. `at` is Unix time in seconds, `row` is None where the server was removed.

    `version` is the content identifier of its own endpoint, `/mcp/NAME@VERSION`; empty where it was removed. `number`
    is None where older changes were not read, so that the versions are not counted.
    """

    number: int | None
    at: float
    who: str
    why: str
    cid: str | None
    row: ServerRow | None
    is_current: bool

    @property
    def version(self) -> str:
        """The content identifier in the address of this version."""
        return cid_of(self.row.manifest()) if self.row is not None else ""

    @property
    def label(self) -> str:
        """What names this version among those of its server: its number, or the end of its content identifier."""
        return str(self.number) if self.number is not None else self.version[-MIN_CID_CHARACTERS:]


def list_versions(store: Store, name: str, known: Sequence[str] = (), limit: int | None = None) -> list[PastVersion]:
    """Return the versions of a server, the newest first: all of them, or at most `limit`.

    Raises UnknownServer with similar names of `known`, and MissingBlob for a content that was deleted.
    """
    # One more than the limit shows whether there are older ones.
    moves = _read_moves(store, SERVERS + name) if limit is None else store.names.past(SERVERS + name, limit + 1)
    if not moves:
        raise unknown_server(name, known)
    is_counted = limit is None or len(moves) <= limit
    return [
        PastVersion(
            len(moves) - place if is_counted else None,
            move.at,
            move.who,
            move.why,
            move.cid,
            parse_row(name, store.blobs.get(move.cid)) if move.cid is not None else None,
            place == 0,
        )
        for place, move in enumerate(moves[:limit])
    ]


def _read_moves(store: Store, name: str) -> list[NameChange]:
    """Return all changes of a name, the newest first."""
    moves: list[NameChange] = []
    before = None
    while found := store.names.past(name, MOVES_PER_READ, before):
        moves += found
        before = found[-1].seq
    return moves


def find_version(versions: Sequence[PastVersion], name: str, text: str) -> PastVersion:
    """Return the version with a number, or with the beginning or end of a content identifier.

    Raises InvalidParams for an unknown one, and for one that removed the server.
    """
    fitting = [one for one in versions if _is_named(one, text)]
    if not fitting:
        numbers = [one.label for one in versions if one.row is not None]
        raise InvalidParams(describe_unknown_name(text, numbers, "version"))
    if fitting[0].row is None:
        raise InvalidParams(f"version {text} removed {name}: expected a version in which it exists")
    return fitting[0]


def find_previous(versions: Sequence[PastVersion], name: str) -> PastVersion:
    """Return the newest version whose content differs from the current one. Raises InvalidParams without one."""
    for one in versions:
        if one.row is not None and one.cid != versions[0].cid:
            return one
    raise InvalidParams(f"{name} has only one version: there is no earlier one")


def put_back(store: Store, folder: Path, name: str, version: PastVersion, now: PastVersion, who: str) -> bool:
    """Make a version the current one, its files in the servers folder included; a running hub follows.

    Returns False when it is current already. `now` is the version that the caller saw as the current one. Raises
    ReadOnly, Refused, and StaleUpdate when the server has changed since.
    """
    check_changeable(store)
    assert version.row is not None
    check_not_of_room(version.row)
    if version.cid == now.cid:
        return False
    why = f"roll back to version {version.label}"
    ServerEditor(store, folder).names({SERVERS + name: version.cid}, who, why, {SERVERS + name: now.cid})
    return True


def describe_version(one: PastVersion) -> dict[str, Any]:
    """Return a version as a value of JSON."""
    row = one.row
    return {
        "number": one.number,
        "at": one.at,
        "who": one.who,
        "why": one.why,
        "current": one.is_current,
        "removed": row is None,
        "version": one.version or None,
        "cid": one.cid,
        "definition": row.definition_cid if row is not None else None,
        "configuration": row.config_cid if row is not None else None,
        "enabled": row.enabled if row is not None else None,
    }


def _is_named(one: PastVersion, text: str) -> bool:
    if text == one.label:
        return True
    if len(text) < MIN_CID_CHARACTERS:
        return False
    names = [one.cid or "", one.version]
    return any(cid.startswith(text) or cid.endswith(text) for cid in names)
