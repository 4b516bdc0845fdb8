"""Names as rows, each with the change that set it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from patchbay.cid import canonical, content_in
from patchbay.errors import MissingBlob, StaleUpdate
from patchbay.sqlite import sqlite3
from patchbay.store import NameChange
from patchbay.stores.sqlite.database import Database

LAST_CHARACTER = chr(0x10FFFF)
"""The last Unicode character: the end of the range of names with a prefix."""


class SqliteNames:
    """Names that point to CIDs, with the history of their changes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> str | None:
        with self._database.read() as connection:
            return _current_cid(connection, name)

    def all(self, prefix: str = "") -> dict[str, str]:
        query = (
            "SELECT name, cid FROM names"
            " WHERE name >= ?1 AND name < ?2 AND substr(name, 1, length(?1)) = ?1 ORDER BY name"
        )
        with self._database.read() as connection:
            return dict(connection.execute(query, (prefix, f"{prefix}{LAST_CHARACTER}")).fetchall())

    def move(
        self, changes: Mapping[str, str | None], who: str, why: str, expected: Mapping[str, str | None] | None = None
    ) -> int:
        wanted = {name: None if cid is None else canonical(cid) for name, cid in changes.items()}
        with self._database.write() as connection:
            for name, cid in (expected or {}).items():
                if _current_cid(connection, name) != (None if cid is None else canonical(cid)):
                    raise StaleUpdate(f"{name} was changed meanwhile")
            _check_blobs_exist(connection, wanted, why)
            at = time.time()
            for name, cid in wanted.items():
                if _current_cid(connection, name) != cid:
                    _change_name(connection, name, cid, (at, who, why))
            return int(connection.execute("SELECT coalesce(max(seq), 0) FROM moves").fetchone()[0])

    def past(
        self,
        name: str = "",
        limit: int = 100,
        before: int | None = None,
        prefixes: Sequence[str] = (),
        after: int = 0,
    ) -> list[NameChange]:
        begun = " OR ".join(f"(name >= :from{place} AND name < :to{place})" for place in range(len(prefixes)))
        query = (
            "SELECT seq, name, cid, at, who, why FROM moves"
            " WHERE (:name = '' OR name = :name) AND seq > :after AND (:before IS NULL OR seq < :before)"
            f" AND ({begun or '1'}) ORDER BY seq DESC LIMIT :limit"
        )
        given: dict[str, str | int | None] = {"name": name, "after": after, "before": before, "limit": max(0, limit)}
        for place, prefix in enumerate(prefixes):
            given |= {f"from{place}": prefix, f"to{place}": f"{prefix}{LAST_CHARACTER}"}
        with self._database.read() as connection:
            return [NameChange(*row) for row in connection.execute(query, given).fetchall()]


def _current_cid(connection: sqlite3.Connection, name: str) -> str | None:
    row = connection.execute("SELECT cid FROM names WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def _check_blobs_exist(connection: sqlite3.Connection, wanted: Mapping[str, str | None], why: str) -> None:
    missing = [
        cid
        for cid in dict.fromkeys(wanted.values())
        if cid is not None
        and connection.execute("SELECT 1 FROM blobs WHERE cid = ?", (cid,)).fetchone() is None
        and content_in(cid) is None
    ]
    if missing:
        raise MissingBlob(missing, why)


def _change_name(connection: sqlite3.Connection, name: str, cid: str | None, record: tuple[float, str, str]) -> None:
    query = "INSERT INTO moves (name, cid, at, who, why) VALUES (?, ?, ?, ?, ?)"
    seq = connection.execute(query, (name, cid, *record)).lastrowid
    if cid is None:
        connection.execute("DELETE FROM names WHERE name = ?", (name,))
    else:
        connection.execute("INSERT OR REPLACE INTO names (name, cid, seq) VALUES (?, ?, ?)", (name, cid, seq))
