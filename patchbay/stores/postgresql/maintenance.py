"""What an operator does with a database: bring its schema up to date, and examine it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import psycopg
import redis

from patchbay.errors import PatchbayError, StoreAway
from patchbay.stores.findings import EMPTY_SCHEMA, Finding
from patchbay.stores.postgresql.address import is_redis_address, parse_address
from patchbay.stores.postgresql.bucket import Bucket
from patchbay.stores.postgresql.database import MAX_CONNECTIONS, Database, describe
from patchbay.stores.postgresql.redis_bus import connect_to_redis
from patchbay.stores.postgresql.schema import VERSION, migrate, read_version

OLDEST_VERSION = 150000
"""The oldest PostgreSQL that is supported, as `server_version_num`."""

MAX_CLOCK_SECONDS = 5.0
"""Difference between the clocks of the machine and the database from which on records look wrong."""

HINT_SECONDS = 2.0
"""Seconds in which a message has to arrive."""


def migrate_database(address: str) -> tuple[int, int]:
    """Apply the files of the schema that the database lacks; return its versions before and after."""
    with closing(Database(address, 1)) as database:
        before = read_version(database)
        return before, migrate(database)


def examine_database(address: str, bus_address: str, blobs: str) -> list[Finding]:
    """Examine a database, and the bucket `blobs` if there is one. Raises ConfigError for a wrong address.

    Changes nothing, except that it writes and deletes one object in the bucket.
    """
    if not is_redis_address(bus_address):
        parse_address(bus_address or address)
    client = connect_to_redis(bus_address) if is_redis_address(bus_address) else None
    bucket = Bucket(blobs) if blobs else None
    with closing(Database(address, 1)) as database:
        found: list[Finding] = []
        try:
            found.extend(_examine(database))
            found.append(_examine_redis(client) if client else _examine_bus(database, bus_address or address))
            found.extend(_examine_bucket(database, bucket))
        except PatchbayError as problem:
            mend = "check the address, and that PostgreSQL runs and lets this machine in (pg_hba.conf)"
            found.append(Finding("database", problem.message, mend, is_fatal=True))
        return found


def _examine(database: Database) -> Iterator[Finding]:
    number, text, encoding = database.read_one(
        "SELECT current_setting('server_version_num')::int, current_setting('server_version'),"
        " current_setting('server_encoding')"
    )
    if number < OLDEST_VERSION:
        oldest = OLDEST_VERSION // 10000
        yield Finding("database", f"this is PostgreSQL {text}", f"use PostgreSQL {oldest} or newer", is_fatal=True)
    else:
        yield Finding("database", f"PostgreSQL {text}")
    if encoding != "UTF8":
        yield Finding("database", f"its encoding is {encoding}", "make a database with ENCODING 'UTF8'", is_fatal=True)
    yield _examine_schema(database)
    yield _examine_rights(database)
    yield _examine_clock(database)
    yield _examine_connections(database)


def _examine_schema(database: Database) -> Finding:
    found = read_version(database)
    if found == 0:
        return Finding("schema", EMPTY_SCHEMA)
    if found < VERSION:
        return Finding(
            "schema", f"it is {found}; this program needs {VERSION}", "patchbay store migrate", is_fatal=True
        )
    if found > VERSION:
        sentence = f"it is {found}; this program knows {VERSION}"
        return Finding("schema", sentence, "use the version of Patchbay that made it", is_fatal=True)
    return Finding("schema", f"version {found}")


def _examine_rights(database: Database) -> Finding:
    user, read_only, may_create, may_write = database.read_one(
        "SELECT current_user, current_setting('transaction_read_only') = 'on',"
        " has_schema_privilege(current_schema(), 'CREATE'),"
        " (SELECT coalesce(bool_and(has_table_privilege(to_regclass('journal'), privilege)), true)"
        " FROM unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS privilege)"
    )
    if read_only:
        mend = "use the address of the primary server"
        return Finding("rights", "the database is read-only: it is a replica", mend, is_fatal=True)
    if not may_write:
        mend = f'GRANT ALL ON ALL TABLES IN SCHEMA public TO "{user}"'
        return Finding("rights", f"{user} may not write the tables", mend, is_fatal=True)
    if not may_create:
        mend = f'GRANT CREATE ON SCHEMA public TO "{user}"'
        return Finding("rights", f"{user} may not make tables: a migration fails", mend)
    return Finding("rights", f"{user} may read, write and migrate")


def _examine_clock(database: Database) -> Finding:
    begun = time.time()
    (now,) = database.read_one("SELECT extract(epoch FROM clock_timestamp())::float8")
    ahead = (begun + time.time()) / 2 - float(now)
    if abs(ahead) > MAX_CLOCK_SECONDS:
        where = "ahead of" if ahead > 0 else "behind"
        sentence = f"the clock of this machine is {abs(ahead):.0f} s {where} that of the database"
        return Finding("clocks", sentence, "sudo timedatectl set-ntp true")
    return Finding("clocks", f"{abs(ahead) * 1000:.0f} ms between this machine and the database")


def _examine_connections(database: Database) -> Finding:
    limit, taken, ours = database.read_one(
        "SELECT current_setting('max_connections')::int, count(*),"
        " count(*) FILTER (WHERE application_name = 'patchbay') FROM pg_stat_activity"
    )
    each = MAX_CONNECTIONS + 1
    sentence = f"{taken} of {limit} are taken, {ours} by hubs; each worker takes up to {each}"
    if limit - taken < each:
        mend = "raise max_connections, lower --workers, or put a pooler between and set --bus-address"
        return Finding("connections", sentence, mend)
    return Finding("connections", sentence)


def _examine_bus(database: Database, address: str) -> Finding:
    """Send a hint, and wait for it on a connection that listens."""
    mend = "give the address of PostgreSQL itself, not of a pooler, as --bus-address"
    try:
        with psycopg.connect(parse_address(address), autocommit=True) as listening:
            listening.execute("LISTEN patchbay_doctor")
            begun = time.monotonic()
            database.run(lambda connection: connection.execute("NOTIFY patchbay_doctor"))
            for _ in listening.notifies(timeout=HINT_SECONDS, stop_after=1):
                return Finding("bus", f"a hint arrives after {(time.monotonic() - begun) * 1000:.0f} ms")
    except psycopg.Error as problem:
        return Finding("bus", f"the connection that listens fails: {describe(problem)}", mend)
    return Finding("bus", f"no hint arrived within {HINT_SECONDS:g} s: messages take up to a second", mend)


def _examine_redis(client: redis.Redis) -> Finding:
    """Send a message through a stream of its own, and read it."""
    key = f"patchbay:doctor:{uuid4()}"
    try:
        begun = time.monotonic()
        client.xadd(key, {"message": "doctor"})
        found = client.xread({key: "0-0"}, count=1)
        client.delete(key)
        if found:
            return Finding("bus", f"a message through Redis takes {(time.monotonic() - begun) * 1000:.0f} ms")
    except redis.RedisError as problem:
        mend = "check --bus-address, and that Redis 5 or newer, or Valkey, runs; REDISCLI_AUTH has its password"
        return Finding("bus", f"Redis does not answer: {describe(problem)}", mend, is_fatal=True)
    finally:
        client.close()
    return Finding("bus", "Redis does not return a message", "look at the log of Redis", is_fatal=True)


def _examine_bucket(database: Database, bucket: Bucket | None) -> Iterator[Finding]:
    """Use the bucket, and look for the newest content that should be there; nothing for a hub without one."""
    (has_table,) = database.read_one("SELECT to_regclass('bucket_garbage') IS NOT NULL")
    query = "SELECT cid FROM blobs WHERE data IS NULL ORDER BY at DESC LIMIT 1"
    newest = [row[0] for row in database.execute(query)] if has_table else []
    if bucket is None:
        if newest:
            yield Finding("bucket", "contents of this hub are in a bucket", "set --blobs to its address", is_fatal=True)
        return
    try:
        bucket.try_out()
        absent = [cid for cid in newest if not bucket.has(cid)]
    except StoreAway as problem:
        mend = "check --blobs, AWS_ENDPOINT_URL and the credentials in the environment"
        yield Finding("bucket", problem.message, mend, is_fatal=True)
        return
    if absent:
        mend = "set --blobs to the bucket of this hub, or restore the bucket from its backup"
        yield Finding("bucket", f"the content {absent[0]} is not in {bucket.address}", mend, is_fatal=True)
    else:
        yield Finding("bucket", f"{bucket.address} takes, returns and deletes contents")
