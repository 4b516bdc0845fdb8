"""Blobs as rows; large ones are objects of a bucket, where one is set. Each write and each read hashes the bytes.

A time younger than RENEW_SECONDS is not written again, so that a `put` of a known blob only reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from patchbay.cid import canonical, cid_of, content_in, is_content, verify
from patchbay.errors import ContentError, CorruptBlob, MissingBlob
from patchbay.stores.postgresql.connection import ANSWER_SECONDS, LONG_ANSWER_SECONDS
from patchbay.stores.postgresql.database import Connection, Database
from patchbay.stores.postgresql.large_blobs import Large, LargeBlobs

RENEW_SECONDS = 600.0
"""How old the time of a blob may be before `put` and `renew` write it again."""

MAX_BLOB_BYTES = 64 * 1024 * 1024
"""Limit on one content in a row."""

LONG_BYTES = 8 * 1024 * 1024
"""Bytes from which on a server may need long to write them."""

MAX_LARGE_BYTES = 256 * 1024 * 1024
"""Limit on one content in a bucket."""

PUT = f"""
INSERT INTO blobs (cid, at, size, data) VALUES (%s, store_time(), %s, %s)
ON CONFLICT (cid) DO UPDATE SET at = excluded.at,
    data = CASE WHEN blobs.data = excluded.data THEN blobs.data ELSE excluded.data END
WHERE blobs.at < excluded.at - {RENEW_SECONDS} OR blobs.data IS DISTINCT FROM excluded.data
""".encode()
"""Store a blob and its time. Bytes that are damaged on the disk are replaced; equal bytes are not written again."""


class PostgresqlBlobs:
    """Immutable bytes under their CID."""

    def __init__(self, database: Database, large: LargeBlobs) -> None:
        self._database = database
        self._large = large

    def put(self, data: bytes, cid: str | None = None) -> str:
        name = cid_of(data) if cid is None else verify(cid, data)
        if cid is None or content_in(name) is None:
            self._write([(name, data)])
        return name

    def put_many(self, contents: Iterable[bytes]) -> list[str]:
        named = [(cid_of(data), data) for data in contents]
        self._write(sorted(dict(named).items()))  # in one order, so that two writers do not lock each other out
        return [name for name, _ in named]

    def renew(self, cids: Iterable[str]) -> None:
        names = sorted({canonical(cid) for cid in cids})
        query = (
            f"WITH old AS (SELECT cid FROM blobs WHERE cid = ANY(%s) AND at < store_time() - {RENEW_SECONDS}"
            " ORDER BY cid FOR UPDATE) UPDATE blobs SET at = store_time() FROM old WHERE blobs.cid = old.cid"
        )
        self._database.execute(query, (names,))

    def get(self, cid: str) -> bytes:
        name = canonical(cid)
        rows = self._database.execute("SELECT data FROM blobs WHERE cid = %s", (name,))
        data = self._bytes_of(name, rows[0][0]) if rows else content_in(name)
        if data is None:
            raise MissingBlob([name])
        if rows and not is_content(name, data) and cid_of(data) != name:
            raise CorruptBlob(f"the stored bytes of {name} are damaged; store the content again to repair them")
        return data

    def get_many(self, cids: Iterable[str]) -> dict[str, bytes]:
        query = "SELECT cid, data FROM blobs WHERE cid = ANY(%s) AND data IS NOT NULL"
        rows = self._database.execute(query, (list(cids),))
        return {cid: data for cid, stored in rows if is_content(cid, data := bytes(stored))}

    def missing(self, cids: Iterable[str]) -> list[str]:
        names = list(dict.fromkeys(canonical(cid) for cid in cids))
        rows = self._database.execute("SELECT cid FROM blobs WHERE cid = ANY(%s)", (names,)) if names else []
        found = {row[0] for row in rows}
        return [name for name in names if name not in found and content_in(name) is None]

    def count(self) -> int:
        return int(self._database.read_one("SELECT count(*) FROM blobs")[0])

    def _bytes_of(self, name: str, data: bytes | None) -> bytes:
        """Return the bytes of a row, or those of its object."""
        found = bytes(data) if data is not None else self._large.read(name)
        if found is None:
            raise CorruptBlob(f"the content {name} is missing in the bucket; store the content again to repair it")
        return found

    def _write(self, named: Sequence[tuple[str, bytes]]) -> None:
        large: list[Large] = []
        small: list[tuple[bytes, Sequence[object]]] = []
        for name, data in named:
            is_large = self._large.is_large(data)
            limit = MAX_LARGE_BYTES if is_large else MAX_BLOB_BYTES
            if len(data) > limit:
                raise ContentError(
                    f"the content {name} has {len(data)} bytes; a store in PostgreSQL takes up to {limit}"
                )
            if is_large:
                large.append((name, None, data))
            else:
                small.append((PUT, (name, len(data), data)))

        def work(connection: Connection) -> None:
            if len(small) == 1:
                connection.execute(*small[0])
                return
            with connection.transaction():
                for query, given in small:
                    connection.execute(query, given)

        if large:
            self._large.write(large, small)
        elif small:
            is_long = sum(len(data) for _, data in named) > LONG_BYTES
            self._database.run(work, answer_seconds=LONG_ANSWER_SECONDS if is_long else ANSWER_SECONDS)
