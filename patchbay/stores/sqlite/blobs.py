"""Blobs as rows. Each write and each read hashes the bytes."""

from __future__ import annotations

from collections.abc import Iterable

from patchbay.cid import canonical, cid_of, content_in, verify
from patchbay.errors import CorruptBlob, MissingBlob
from patchbay.stores.sqlite.database import Database


class SqliteBlobs:
    """Immutable bytes under their CID."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, data: bytes, cid: str | None = None) -> str:
        name = cid_of(data) if cid is None else verify(cid, data)
        if cid is not None and content_in(name) is not None:
            return name
        with self._database.read() as connection:
            row = connection.execute("SELECT data = ? FROM blobs WHERE cid = ?", (data, name)).fetchone()
        if row is None or not row[0]:
            # This also repairs a row with damaged bytes.
            with self._database.write() as connection:
                connection.execute("INSERT OR REPLACE INTO blobs (cid, data) VALUES (?, ?)", (name, data))
        return name

    def get(self, cid: str) -> bytes:
        name = canonical(cid)
        with self._database.read() as connection:
            row = connection.execute("SELECT data FROM blobs WHERE cid = ?", (name,)).fetchone()
        data = content_in(name) if row is None else bytes(row[0])
        if data is None:
            raise MissingBlob([name])
        if row is not None and cid_of(data) != name:
            raise CorruptBlob(f"the stored bytes of {name} are damaged; store the content again to repair them")
        return data

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
