"""Blobs as rows. Each write and each read hashes the bytes.

The time of the last `put` or `renew` is in a separate table, because SQLite reads through a large blob to reach a
column behind it. A time younger than RENEW_SECONDS is not written again, so that a `put` of a known blob only reads.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import orjson

from patchbay.cid import canonical, cid_of, content_in, is_content, verify
from patchbay.errors import CorruptBlob, MissingBlob
from patchbay.sqlite import sqlite3
from patchbay.stores.sqlite.database import Database

RENEW_SECONDS = 600.0
"""How old the time of a blob may be before `put` and `renew` write it again."""


class SqliteBlobs:
    """Immutable bytes under their CID."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, data: bytes, cid: str | None = None) -> str:
        name = cid_of(data) if cid is None else verify(cid, data)
        if cid is not None and content_in(name) is not None:
            return name
        if not self._is_fresh(name, data):
            with self._database.write() as connection:
                _write(connection, name, data)
        return name

    def put_many(self, contents: Iterable[bytes]) -> list[str]:
        named = [(cid_of(data), data) for data in contents]
        fresh = [(name, data) for name, data in named if not self._is_fresh(name, data)]
        if fresh:
            with self._database.write() as connection:
                for name, data in fresh:
                    _write(connection, name, data)
        return [name for name, _ in named]

    def renew(self, cids: Iterable[str]) -> None:
        names = dict.fromkeys(canonical(cid) for cid in cids)
        now = time.time()
        with self._database.read() as connection:
            query = "SELECT 1 FROM blob_times WHERE cid = ? AND at < ?"
            old = [name for name in names if connection.execute(query, (name, now - RENEW_SECONDS)).fetchone()]
        if old:
            with self._database.write() as connection:
                query = "UPDATE blob_times SET at = ? WHERE cid = ?"
                connection.executemany(query, [(now, name) for name in old])

    def _is_fresh(self, name: str, data: bytes) -> bool:
        """Whether these bytes are stored, undamaged, with a recent time."""
        query = "SELECT data = ? AND at >= ? FROM blobs JOIN blob_times USING (cid) WHERE cid = ?"
        with self._database.read() as connection:
            row = connection.execute(query, (data, time.time() - RENEW_SECONDS, name)).fetchone()
        return row is not None and bool(row[0])

    def get(self, cid: str) -> bytes:
        name = canonical(cid)
        with self._database.read() as connection:
            row = connection.execute("SELECT data FROM blobs WHERE cid = ?", (name,)).fetchone()
        data = content_in(name) if row is None else bytes(row[0])
        if data is None:
            raise MissingBlob([name])
        if row is not None and not is_content(name, data) and cid_of(data) != name:
            raise CorruptBlob(f"the stored bytes of {name} are damaged; store the content again to repair them")
        return data

    def get_many(self, cids: Iterable[str]) -> dict[str, bytes]:
        query = "SELECT cid, data FROM blobs WHERE cid IN (SELECT value FROM json_each(?))"
        with self._database.read() as connection:
            rows = connection.execute(query, (orjson.dumps(list(cids)).decode(),)).fetchall()
        return {cid: bytes(data) for cid, data in rows if is_content(cid, data)}

    def missing(self, cids: Iterable[str]) -> list[str]:
        names = dict.fromkeys(canonical(cid) for cid in cids)
        with self._database.read() as connection:
            absent = [
                name
                for name in names
                if connection.execute("SELECT 1 FROM blobs WHERE cid = ?", (name,)).fetchone() is None
            ]
        return [name for name in absent if content_in(name) is None]

    def count(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute("SELECT count(*) FROM blobs").fetchone()[0])


def _write(connection: sqlite3.Connection, name: str, data: bytes) -> None:
    """Store a blob and its time. Bytes that are damaged on the disk are replaced."""
    if not connection.execute("SELECT 1 FROM blobs WHERE cid = ? AND data = ?", (name, data)).fetchone():
        connection.execute("INSERT OR REPLACE INTO blobs (cid, data) VALUES (?, ?)", (name, data))
    connection.execute("INSERT OR REPLACE INTO blob_times (cid, at) VALUES (?, ?)", (name, time.time()))
