"""Deletes blobs under the lock of names, and later their objects in the bucket.

PostgreSQL's own vacuum gives the space of rows to later rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg

from patchbay.errors import StaleUpdate
from patchbay.store import Collected
from patchbay.stores.postgresql.connection import LONG_ANSWER_SECONDS
from patchbay.stores.postgresql.database import STALE, Connection, Database
from patchbay.stores.postgresql.large_blobs import LargeBlobs


class PostgresqlCollection:
    """Deletes blobs that are no longer needed."""

    def __init__(self, database: Database, large: LargeBlobs) -> None:
        self._database = database
        self._large = large

    def older_than(self, at: float) -> list[str]:
        return [row[0] for row in self._database.execute("SELECT cid FROM blobs WHERE at < %s ORDER BY at", (at,))]

    def size(self, cids: Iterable[str]) -> Collected:
        query = "SELECT count(*), coalesce(sum(size), 0)::bigint FROM blobs WHERE cid = ANY(%s)"
        count, size = self._database.read_one(query, (sorted(set(cids)),))
        return Collected(int(count), int(size))

    def collect(self, cids: Sequence[str], before: float, seq: int) -> Collected:
        def work(connection: Connection) -> Collected:
            try:
                row = connection.execute(
                    "SELECT many, size FROM collect_blobs(%s::text[], %s, %s)", (list(cids), before, seq)
                ).fetchone()
            except psycopg.Error as problem:
                if problem.sqlstate == STALE:
                    raise StaleUpdate("a name was changed meanwhile") from problem
                raise
            return Collected(*row) if row else Collected(0, 0)

        return self._database.run(work, answer_seconds=LONG_ANSWER_SECONDS)

    def give_back(self, whole: bool = False) -> int:
        """Delete objects of the bucket that no blob needs. What PostgreSQL has free it keeps for later rows."""
        while self._large.delete_garbage() and whole:
            pass
        return 0
