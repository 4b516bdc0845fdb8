"""Rows as they are, for a copy of a whole store."""

from __future__ import annotations

from collections.abc import Sequence

from patchbay.cid import verify
from patchbay.store import NameChange, StoredBlob, StoredEntry
from patchbay.stores.sqlite.database import Database


class SqliteTransfer:
    """Implements `patchbay.store.Transfer`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def blobs(self, after: str, limit: int) -> list[StoredBlob]:
        query = (
            "SELECT cid, coalesce(at, 0.0), length(data) FROM blobs LEFT JOIN blob_times USING (cid) WHERE cid > ?"
            " ORDER BY cid LIMIT ?"
        )
        with self._database.read() as connection:
            return [StoredBlob(*row) for row in connection.execute(query, (after, limit)).fetchall()]

    def entries(self, after: int, limit: int) -> list[StoredEntry]:
        query = "SELECT seq, topic, data, at, until FROM journal WHERE seq > ? ORDER BY seq LIMIT ?"
        with self._database.read() as connection:
            return [StoredEntry(*row) for row in connection.execute(query, (after, limit)).fetchall()]

    def moves(self, after: int, limit: int) -> list[NameChange]:
        query = "SELECT seq, name, cid, at, who, why FROM moves WHERE seq > ? ORDER BY seq LIMIT ?"
        with self._database.read() as connection:
            return [NameChange(*row) for row in connection.execute(query, (after, limit)).fetchall()]

    def last(self) -> tuple[str, int, int]:
        query = (
            "SELECT coalesce((SELECT max(cid) FROM blobs), ''), coalesce((SELECT max(seq) FROM journal), 0),"
            " coalesce((SELECT max(seq) FROM moves), 0)"
        )
        with self._database.read() as connection:
            cid, entry, move = connection.execute(query).fetchone()
        return str(cid), int(entry), int(move)

    def write_blobs(self, blobs: Sequence[tuple[StoredBlob, bytes]]) -> None:
        with self._database.write() as connection:
            for blob, data in blobs:
                row = (verify(blob.cid, data), data)
                connection.execute("INSERT OR IGNORE INTO blobs (cid, data) VALUES (?, ?)", row)
                connection.execute("INSERT OR IGNORE INTO blob_times (cid, at) VALUES (?, ?)", (blob.cid, blob.at))

    def write_entries(self, entries: Sequence[StoredEntry]) -> None:
        query = "INSERT OR IGNORE INTO journal (seq, topic, data, at, until) VALUES (?, ?, ?, ?, ?)"
        with self._database.write() as connection:
            connection.executemany(query, [(one.seq, one.topic, one.data, one.at, one.until) for one in entries])

    def write_moves(self, moves: Sequence[NameChange]) -> None:
        query = "INSERT OR IGNORE INTO moves (seq, name, cid, at, who, why) VALUES (?, ?, ?, ?, ?, ?)"
        with self._database.write() as connection:
            for move in moves:
                connection.execute(query, (move.seq, move.name, move.cid, move.at, move.who, move.why))
                connection.execute("DELETE FROM names WHERE name = ?", (move.name,))
                if move.cid is not None:
                    row = (move.name, move.cid, move.seq)
                    connection.execute("INSERT INTO names (name, cid, seq) VALUES (?, ?, ?)", row)

    def newest_seq(self) -> int:
        query = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'journal'"
        with self._database.read() as connection:
            return int(connection.execute(query).fetchone()[0])

    def set_newest_seq(self, seq: int) -> None:
        with self._database.write() as connection:
            found = connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'journal'", (seq,)).rowcount
            if not found:
                connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('journal', ?)", (seq,))
