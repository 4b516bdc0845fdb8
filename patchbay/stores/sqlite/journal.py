"""Journal entries as rows. Writing an entry with a lifetime does not wait for the disk."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from patchbay.errors import StaleUpdate
from patchbay.sqlite import sqlite3
from patchbay.store import JournalEntry
from patchbay.stores.sqlite.database import Database


class SqliteJournal:
    """Append-only topics of bytes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def now(self) -> float:
        return time.time()

    def append(self, topic: str, data: bytes, keep: float | None = None) -> int:
        return self.append_all([(topic, data, keep)], {})[0]

    def append_all(self, entries: Sequence[tuple[str, bytes, float | None]], last: Mapping[str, int]) -> list[int]:
        query = "INSERT INTO journal (topic, data, at, until) VALUES (?, ?, ?, ?)"
        with self._database.write(durable=any(keep is None for _, _, keep in entries)) as connection:
            for topic, expected in last.items():
                if expected != _last(connection, topic):
                    raise StaleUpdate(f"{topic} has a newer entry")
            # The time of the write, not of the wait for other writers: the age of a beat says whether a process lives.
            at = time.time()
            rows = [(topic, data, at, None if keep is None else at + keep) for topic, data, keep in entries]
            return [int(connection.execute(query, row).lastrowid or 0) for row in rows]

    def read(self, topic: str, after: int = 0, limit: int = 1000) -> list[JournalEntry]:
        query = "SELECT seq, topic, data, at FROM journal WHERE topic = ? AND seq > ? ORDER BY seq LIMIT ?"
        with self._database.read() as connection:
            return [JournalEntry(*row) for row in connection.execute(query, (topic, after, max(0, limit))).fetchall()]

    def last(self, topic: str) -> int:
        with self._database.read() as connection:
            return _last(connection, topic)

    def tail(self, topic: str, limit: int = 1000, before: int | None = None) -> list[JournalEntry]:
        query = (
            "SELECT seq, topic, data, at FROM journal WHERE topic = :topic AND (:before IS NULL OR seq < :before)"
            " ORDER BY seq DESC LIMIT :limit"
        )
        given = {"topic": topic, "before": before, "limit": max(0, limit)}
        with self._database.read() as connection:
            return [JournalEntry(*row) for row in connection.execute(query, given).fetchall()]

    def trim(self, topic: str, max_bytes: int) -> int:
        sums = "SELECT seq, sum(length(data)) OVER (ORDER BY seq DESC) AS total FROM journal WHERE topic = ?"
        query = f"DELETE FROM journal WHERE seq IN (SELECT seq FROM ({sums}) WHERE total > ?)"
        with self._database.write(durable=False) as connection:
            return connection.execute(query, (topic, max_bytes)).rowcount

    def remove(self, topic: str, before: int) -> int:
        with self._database.write() as connection:
            return connection.execute("DELETE FROM journal WHERE topic = ? AND seq < ?", (topic, before)).rowcount

    def remove_all(self, before: Mapping[str, int]) -> int:
        with self._database.write(durable=False) as connection:
            query = "DELETE FROM journal WHERE topic = ? AND seq < ?"
            return sum(connection.execute(query, row).rowcount for row in before.items())

    def sweep(self) -> int:
        with self._database.write(durable=False) as connection:
            return connection.execute("DELETE FROM journal WHERE until <= ?", (time.time(),)).rowcount


def _last(connection: sqlite3.Connection, topic: str) -> int:
    row = connection.execute("SELECT coalesce(max(seq), 0) FROM journal WHERE topic = ?", (topic,)).fetchone()
    return int(row[0])
