"""Contents whose bytes are in a bucket: PostgreSQL has the row, the bucket has the object.

A writer marks its object in `bucket_garbage`, writes the object, and then makes the row and removes the mark, in one
transaction. A collection deletes the row and marks the object. `delete_garbage` deletes objects whose mark has expired,
each under the lock of its mark. So the object of a writer that died is deleted later, each row has its object, and no
lock is held while an object is written.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from patchbay.errors import ContentError, StoreAway
from patchbay.stores.postgresql.database import Connection, Database

if TYPE_CHECKING:
    from patchbay.stores.postgresql.bucket import Bucket

log = logging.getLogger(__name__)

LARGE_BYTES = 1024 * 1024
"""Contents with more bytes go to the bucket, where one is set."""

MARK_SECONDS = 3600.0
"""Seconds that a writer has to write an object and its row."""

MAX_DELETED = 100
"""Objects that one step of a clean-up deletes."""

ATTEMPTS = 3
"""How often an object is written when a clean-up took it away meanwhile."""

MARK = (
    f"INSERT INTO bucket_garbage AS g SELECT cid, store_time() + {MARK_SECONDS} FROM unnest(%s::text[]) AS u (cid)"
    " ORDER BY cid ON CONFLICT (cid) DO UPDATE SET until = excluded.until"
)
KEEP = b"SELECT keep_large(%s, coalesce(%s, store_time()), %s)"

Large = tuple[str, float | None, bytes]
"""CID, time (None: now) and bytes."""


class GoneMeanwhile(Exception):
    """A clean-up has deleted an object before its row was made."""


class LargeBlobs:
    """The objects of one store. `bucket` is None for a hub without one."""

    def __init__(self, database: Database, bucket: Bucket | None) -> None:
        self._database = database
        self._bucket = bucket

    def is_large(self, data: bytes) -> bool:
        """Whether these bytes belong into the bucket."""
        return self._bucket is not None and len(data) > LARGE_BYTES

    def write(self, contents: Sequence[Large], others: Sequence[tuple[bytes, Sequence[object]]] = ()) -> None:
        """Write objects, and then their rows with `others` (repeatable statements), in one transaction."""
        for _ in range(ATTEMPTS):
            self._write_objects(contents)
            try:
                self._database.run(lambda connection: _write_rows(connection, contents, others))
                return
            except GoneMeanwhile:
                log.info("an object of the bucket was deleted before its row was made: it is written again")
        raise StoreAway("objects of the bucket disappear while they are written: is the clock of the database right?")

    def read(self, cid: str) -> bytes | None:
        """Return the bytes of an object; None for an unknown CID. Raises ContentError without a bucket."""
        if self._bucket is None:
            raise ContentError(f"the content {cid} is in a bucket: start the hub with the setting --blobs")
        return self._bucket.get(cid)

    def delete_garbage(self) -> int:
        """Delete objects that no row needs; return how many. A bucket that is away is asked again later."""
        if self._bucket is None:
            return 0
        query = "SELECT cid FROM bucket_garbage WHERE until < store_time() ORDER BY until LIMIT %s"
        deleted = 0
        try:
            for (cid,) in self._database.execute(query, (MAX_DELETED,)):
                deleted += self._delete_one(cid)
        except StoreAway as problem:
            log.warning("contents that are no longer needed stay in the bucket for now: %s", problem)
        return deleted

    def _write_objects(self, contents: Sequence[Large]) -> None:
        assert self._bucket is not None
        self._database.execute(MARK, ([cid for cid, _, _ in contents],))
        for cid, _, data in contents:
            self._bucket.put(cid, data)

    def _delete_one(self, cid: str) -> int:
        bucket = self._bucket
        assert bucket is not None

        def work(connection: Connection) -> int:
            with connection.transaction():
                mark = b"SELECT 1 FROM bucket_garbage WHERE cid = %s AND until < store_time() FOR UPDATE SKIP LOCKED"
                if connection.execute(mark, (cid,)).fetchone() is None:
                    return 0
                is_needed = connection.execute(b"SELECT 1 FROM blobs WHERE cid = %s", (cid,)).fetchone() is not None
                if not is_needed:
                    bucket.delete(cid)
                connection.execute(b"DELETE FROM bucket_garbage WHERE cid = %s", (cid,))
                return 0 if is_needed else 1

        return self._database.run(work)


def _write_rows(
    connection: Connection, contents: Sequence[Large], others: Sequence[tuple[bytes, Sequence[object]]]
) -> None:
    with connection.transaction():
        for cid, at, data in sorted(contents):
            row = connection.execute(KEEP, (cid, at, len(data))).fetchone()
            if row is None or not row[0]:
                raise GoneMeanwhile
        for query, given in others:
            connection.execute(query, given)
