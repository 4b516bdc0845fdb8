"""Journal entries as rows. The seq is taken under the lock of the topic, so that a reader never misses a lower one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import uuid4

import psycopg

from patchbay.errors import ContentError, StaleUpdate
from patchbay.store import JournalEntry
from patchbay.stores.postgresql.database import STALE, Connection, Database

APPEND = b"SELECT append_entries(%s, %s, %s::text[], %s::bytea[], %s::float8[], %s::text[], %s::bigint[])"


class PostgresqlJournal:
    """Append-only topics of bytes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # A seq that every later entry exceeds: where a repeat looks for its own rows.
        query = "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('journal', 'seq')::regclass), 0)"
        self._newest = int(database.read_one(query)[0])

    def now(self) -> float:
        return self._database.clock.now()

    def append(self, topic: str, data: bytes, keep: float | None = None) -> int:
        return self.append_all([(topic, data, keep)], {})[0]

    def append_all(self, entries: Sequence[tuple[str, bytes, float | None]], last: Mapping[str, int]) -> list[int]:
        topics, contents, keeps = ([entry[place] for entry in entries] for place in range(3))
        given = (uuid4(), self._newest, topics, contents, keeps, list(last), list(last.values()))

        def work(connection: Connection) -> list[int]:
            try:
                row = connection.execute(APPEND, given, binary=True).fetchone()
            except psycopg.Error as problem:
                if problem.sqlstate == STALE:
                    raise StaleUpdate(f"{problem.diag.message_primary} has a newer entry") from problem
                raise
            return list(row[0]) if row else []

        seqs = self._database.run(work)
        if len(seqs) != len(entries):  # the answer was lost, and another process has removed some of the entries since
            raise ContentError(f"expected {len(entries)} new entries in the journal, found {len(seqs)}: try again")
        self._newest = max(self._newest, *seqs) if seqs else self._newest
        return seqs

    def read(self, topic: str, after: int = 0, limit: int = 1000) -> list[JournalEntry]:
        query = "SELECT seq, topic, data, at FROM journal WHERE topic = %s AND seq > %s ORDER BY seq LIMIT %s"
        return [JournalEntry(*row) for row in self._database.execute(query, (topic, after, max(0, limit)))]

    def last(self, topic: str) -> int:
        query = "SELECT coalesce(max(seq), 0) FROM journal WHERE topic = %s"
        return int(self._database.read_one(query, (topic,))[0])

    def tail(self, topic: str, limit: int = 1000, before: int | None = None) -> list[JournalEntry]:
        older = "" if before is None else " AND seq < %(before)s"
        query = (
            f"SELECT seq, topic, data, at FROM journal WHERE topic = %(topic)s{older} ORDER BY seq DESC LIMIT %(limit)s"
        )
        given = {"topic": topic, "before": before, "limit": max(0, limit)}
        return [JournalEntry(*row) for row in self._database.execute(query, given)]

    def trim(self, topic: str, max_bytes: int) -> int:
        sums = "SELECT seq, sum(octet_length(data)) OVER (ORDER BY seq DESC) AS total FROM journal WHERE topic = %s"
        query = f"DELETE FROM journal WHERE seq IN (SELECT seq FROM ({sums}) AS sizes WHERE total > %s)"
        return self._database.count(query, (topic, max_bytes))

    def remove(self, topic: str, before: int) -> int:
        return self._database.count("DELETE FROM journal WHERE topic = %s AND seq < %s", (topic, before))

    def remove_all(self, before: Mapping[str, int]) -> int:
        query = (
            "DELETE FROM journal USING unnest(%s::text[], %s::bigint[]) AS old (name, before)"
            " WHERE topic = old.name AND seq < old.before"
        )
        return self._database.count(query, (list(before), list(before.values())))

    def sweep(self) -> int:
        # Rows that another node deletes at this moment are left to it: two nodes never wait for each other.
        over = "SELECT seq FROM journal WHERE until <= store_time() FOR UPDATE SKIP LOCKED"
        return self._database.count(f"DELETE FROM journal WHERE seq IN ({over})")
