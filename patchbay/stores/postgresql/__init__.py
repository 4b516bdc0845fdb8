"""A store in PostgreSQL: for hubs on many machines, all of which use one database.

It mirrors `stores/sqlite/`. A connection may end at any moment: every write carries an id, so that a repeat of a write
whose answer was lost finds what it wrote. Times are those of the database.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from patchbay.store import Blobs, Bus, Collection, Jobs, Journal, Names, Transfer
from patchbay.stores.postgresql.address import describe_address, is_redis_address
from patchbay.stores.postgresql.blobs import PostgresqlBlobs
from patchbay.stores.postgresql.bus import PostgresqlBus
from patchbay.stores.postgresql.collection import PostgresqlCollection
from patchbay.stores.postgresql.database import MAX_CONNECTIONS, Database
from patchbay.stores.postgresql.journal import PostgresqlJournal
from patchbay.stores.postgresql.large_blobs import LargeBlobs
from patchbay.stores.postgresql.names import PostgresqlNames
from patchbay.stores.postgresql.schema import prepare_schema
from patchbay.stores.postgresql.transfer import PostgresqlTransfer

if TYPE_CHECKING:
    from patchbay.stores.postgresql.bucket import Bucket
    from patchbay.stores.postgresql.jobs import PostgresqlJobs
    from patchbay.stores.postgresql.redis_bus import RedisBus

log = logging.getLogger(__name__)


class PostgresqlStore:
    """Blobs, names, journal and bus in the database of an address such as `postgresql://user@host/db`.

    An empty database gets the schema. `bus_address` is that of a Redis for messages, or of the connection that listens,
    which must not lead through a pooler of transactions. `blobs` is the address of a bucket for large contents, such as
    `s3://bucket/prefix`. Raises ConfigError for a wrong address, StoreAway when the database does not answer,
    ContentError for a database of another program or version.
    """

    is_shared = True

    def __init__(self, address: str, bus_address: str = "", blobs: str = "") -> None:
        bucket = _open_bucket(blobs) if blobs else None
        self._database = Database(address)
        try:
            prepare_schema(self._database)
            self._database.clock.measure()
            self._bus = _open_bus(self._database, bus_address or address)
        except BaseException:
            self._database.close()
            raise
        large = LargeBlobs(self._database, bucket)
        self.blobs: Blobs = PostgresqlBlobs(self._database, large)
        self.collection: Collection = PostgresqlCollection(self._database, large)
        self.names: Names = PostgresqlNames(self._database)
        self.journal: Journal = PostgresqlJournal(self._database)
        self.transfer: Transfer | None = PostgresqlTransfer(self._database, large)
        self.bus: Bus = self._bus
        self._job_address = bus_address if bus_address and not is_redis_address(bus_address) else address
        self._jobs: PostgresqlJobs | None = None
        log.info(
            "the store is the database %s; this process uses up to %d connections, and one that listens",
            describe_address(address),
            MAX_CONNECTIONS,
        )

    @property
    def jobs(self) -> Jobs | None:
        """The jobs of this database; the first use loads Procrastinate."""
        if self._jobs is None:
            from patchbay.stores.postgresql.jobs import PostgresqlJobs

            self._jobs = PostgresqlJobs(self._job_address)
        return self._jobs

    def now(self) -> float:
        return self._database.clock.now()

    def order_token(self) -> bytes:
        token = self._database.read_one("SELECT nextval('order_tokens')")[0]
        return int(token).to_bytes(16)

    def check(self) -> str | None:
        return self._database.check()

    def close(self) -> None:
        if self._jobs is not None:
            self._jobs.close()
        self._bus.close()
        self._database.close()


def _open_bucket(address: str) -> Bucket:
    from patchbay.stores.postgresql.bucket import Bucket

    return Bucket(address)


def _open_bus(database: Database, address: str) -> PostgresqlBus | RedisBus:
    if not is_redis_address(address):
        return PostgresqlBus(database, address)
    from patchbay.stores.postgresql.redis_bus import RedisBus

    return RedisBus(address, stream_key(database), database.clock)


def stream_key(database: Database) -> str:
    """Return the key of the stream of a store in Redis, which other stores may use too."""
    return f"patchbay:{database.read_one('SELECT id FROM store_id')[0]}:messages"
