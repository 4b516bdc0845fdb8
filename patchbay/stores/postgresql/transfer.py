"""Rows as they are, for a copy of a whole store."""

from __future__ import annotations

from collections.abc import Sequence

from patchbay.cid import verify
from patchbay.store import NameChange, StoredBlob, StoredEntry
from patchbay.stores.postgresql.connection import LONG_ANSWER_SECONDS
from patchbay.stores.postgresql.database import Connection, Database
from patchbay.stores.postgresql.large_blobs import LargeBlobs

SEQUENCE = "pg_get_serial_sequence('journal', 'seq')::regclass"


class PostgresqlTransfer:
    """Implements `patchbay.store.Transfer`."""

    def __init__(self, database: Database, large: LargeBlobs) -> None:
        self._database = database
        self._large = large

    def blobs(self, after: str, limit: int) -> list[StoredBlob]:
        query = "SELECT cid, at, size FROM blobs WHERE cid > %s ORDER BY cid LIMIT %s"
        return [StoredBlob(*row) for row in self._database.execute(query, (after, limit))]

    def entries(self, after: int, limit: int) -> list[StoredEntry]:
        query = "SELECT seq, topic, data, at, until FROM journal WHERE seq > %s ORDER BY seq LIMIT %s"
        return [StoredEntry(*row) for row in self._database.execute(query, (after, limit))]

    def moves(self, after: int, limit: int) -> list[NameChange]:
        query = "SELECT seq, name, cid, at, who, why FROM moves WHERE seq > %s ORDER BY seq LIMIT %s"
        return [NameChange(*row) for row in self._database.execute(query, (after, limit))]

    def last(self) -> tuple[str, int, int]:
        cid, entry, move = self._database.read_one(
            "SELECT coalesce((SELECT max(cid) FROM blobs), ''), coalesce((SELECT max(seq) FROM journal), 0),"
            " coalesce((SELECT max(seq) FROM moves), 0)"
        )
        return str(cid), int(entry), int(move)

    def write_blobs(self, blobs: Sequence[tuple[StoredBlob, bytes]]) -> None:
        rows = [(verify(blob.cid, data), blob.at, data) for blob, data in blobs]
        insert = b"INSERT INTO blobs (cid, at, size, data) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
        small = [(cid, at, len(data), data) for cid, at, data in rows if not self._large.is_large(data)]
        if len(small) < len(rows):
            large = [row for row in rows if self._large.is_large(row[2])]
            self._large.write(large, [(insert, row) for row in small])
        else:
            self._write(insert, small)

    def write_entries(self, entries: Sequence[StoredEntry]) -> None:
        query = (
            b"INSERT INTO journal (seq, topic, data, at, until, write) OVERRIDING SYSTEM VALUE"
            b" VALUES (%s, %s, %s, %s, %s, gen_random_uuid()) ON CONFLICT DO NOTHING"
        )
        self._write(query, [(one.seq, one.topic, one.data, one.at, one.until) for one in entries])

    def write_moves(self, moves: Sequence[NameChange]) -> None:
        insert = b"INSERT INTO moves VALUES (%s, %s, %s, %s, %s, %s, gen_random_uuid()) ON CONFLICT DO NOTHING"

        def work(connection: Connection) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(insert, [(one.seq, one.name, one.cid, one.at, one.who, one.why) for one in moves])
                newest = {one.name: one for one in moves}
                cursor.execute("DELETE FROM names WHERE name = ANY(%s)", (list(newest),))
                rows = [(one.name, one.cid, one.seq) for one in newest.values() if one.cid is not None]
                cursor.executemany("INSERT INTO names VALUES (%s, %s, %s)", rows)

        self._database.run(work, answer_seconds=LONG_ANSWER_SECONDS)

    def newest_seq(self) -> int:
        return int(self._database.read_one(f"SELECT coalesce(pg_sequence_last_value({SEQUENCE}), 0)")[0])

    def set_newest_seq(self, seq: int) -> None:
        if seq:
            self._database.execute(f"SELECT setval({SEQUENCE}, %s)", (seq,))

    def _write(self, query: bytes, rows: Sequence[tuple[object, ...]]) -> None:
        def work(connection: Connection) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(query, rows)

        self._database.run(work, answer_seconds=LONG_ANSWER_SECONDS)
