"""The versions of one server for its tab *Versions*: each change of the server, with the version that it made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchbay.catalogue.servers.rows import parse_row
from patchbay.cid import cid_of
from patchbay.errors import ConfigError, MissingBlob
from patchbay.store import NameChange, Store
from patchbay.topics import SERVED, SERVERS

MAX_MOVES = 50
"""Changes of one name on a page, the newest first."""


def list_server_versions(store: Store, name: str, current: str | None) -> list[dict[str, Any]]:
    """Return the newest MAX_MOVES changes of a server as rows, the newest first.

    `number` counts the changes from 1, the oldest, as `patchbay versions` does; None beyond MAX_MOVES. `cid` is the
    content to roll back to, None where the server was removed and for a version that a variable made. `version` is the
    CID of the version, empty without one; `was_served` says whether it had an endpoint, so that it can be compared.
    `is_last` marks the newest change, `is_current` a row with the version `current`.
    """
    moves = store.names.past(f"{SERVERS}{name}", MAX_MOVES)
    served = store.names.past(f"{SERVED}{name}", MAX_MOVES)
    had_endpoint = {move.cid for move in served}
    many = len(moves)
    rows = []
    until = float("inf")
    for place, move in enumerate(moves):
        number = many - place if many < MAX_MOVES else None
        version = _find_version(store, name, move.cid)
        if version and version not in had_endpoint:
            # The variable `mcps` configures it, so that its version depends on more than this content.
            between = [each.cid for each in served if move.at <= each.at < until and each.cid]
            version = between[-1] if between else version
        rows.append(_row(move, version, number, move.cid, had_endpoint))
        until = move.at
    known = {row["version"] for row in rows}
    # A version that no change of the server made: the variable that configures it changed.
    others = [move for move in served if move.cid is not None and move.cid not in known]
    rows += [_row(move, move.cid or "", None, None, had_endpoint) for move in others]
    rows.sort(key=lambda row: -row["at"])
    for place, row in enumerate(rows):
        row["is_last"] = place == 0
        row["is_current"] = bool(current) and row["version"] == current and not _is_repeated(rows[:place], current)
    return rows


def find_return(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the earlier row whose content the newest one has again, after a rollback; None without one."""
    return next((row for row in rows[1:] if row["cid"] and row["cid"] == rows[0]["cid"]), None)


def _row(
    move: NameChange, version: str, number: int | None, cid: str | None, had_endpoint: set[str | None]
) -> dict[str, Any]:
    return {
        "at": move.at,
        "who": move.who,
        "why": move.why,
        "number": number,
        "cid": cid,
        "version": version,
        "was_served": version in had_endpoint,
    }


def _is_repeated(newer: Sequence[dict[str, Any]], version: str | None) -> bool:
    """Whether a newer row has the version already, as after a rollback."""
    return any(row["version"] == version for row in newer)


def _find_version(store: Store, name: str, cid: str | None) -> str:
    """Return the version that a stored content of a server has; empty for none, and for content that was deleted."""
    if cid is None:
        return ""
    try:
        return cid_of(parse_row(name, store.blobs.get(cid)).manifest())
    except (MissingBlob, ConfigError):
        return ""
