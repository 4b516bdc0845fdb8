"""Deletes blobs in short transactions, and gives free pages of the file back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from patchbay.errors import StaleUpdate
from patchbay.sqlite import sqlite3
from patchbay.store import Collected
from patchbay.stores.sqlite.database import Database


class SqliteCollection:
    """Deletes blobs that are no longer needed, and gives the space back."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def older_than(self, at: float) -> list[str]:
        with self._database.read() as connection:
            query = "SELECT cid FROM blob_times WHERE at < ? ORDER BY at"
            return [row[0] for row in connection.execute(query, (at,)).fetchall()]

    def size(self, cids: Iterable[str]) -> Collected:
        with self._database.read() as connection:
            sizes = [size for name in set(cids) if (size := _size(connection, name)) is not None]
        return Collected(len(sizes), sum(sizes))

    def collect(self, cids: Sequence[str], before: float, seq: int) -> Collected:
        sizes = []
        with self._database.write() as connection:
            if connection.execute("SELECT coalesce(max(seq), 0) FROM moves").fetchone()[0] != seq:
                raise StaleUpdate("a name was changed meanwhile")
            for name in cids:
                query = "DELETE FROM blob_times WHERE cid = ? AND at < ?"
                if connection.execute(query, (name, before)).rowcount:
                    sizes.append(_size(connection, name) or 0)
                    connection.execute("DELETE FROM blobs WHERE cid = ?", (name,))
        return Collected(len(sizes), sum(sizes))

    def give_back(self, whole: bool = False) -> int:
        return self._database.give_back(whole)


def _size(connection: sqlite3.Connection, name: str) -> int | None:
    row = connection.execute("SELECT length(data) FROM blobs WHERE cid = ?", (name,)).fetchone()
    return None if row is None else int(row[0])
