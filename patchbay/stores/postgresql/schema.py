"""The schema: numbered files of SQL, each of which is applied once, in order, under a lock.

Within one version of the program the files only add, so that hubs of two versions can use one database.
"""

from __future__ import annotations

from importlib.resources import files

from patchbay.errors import ContentError
from patchbay.stores.postgresql.connection import LONG_ANSWER_SECONDS
from patchbay.stores.postgresql.database import Connection, Database

VERSION = 3
"""The schema that this program knows: the number of the newest file in `migrations/`."""

FOREIGN = "the database belongs to another program: it has tables but no schema version; use a database of its own"


def prepare_schema(database: Database) -> None:
    """Create the schema in an empty database.

    Raises ContentError for a database of another program, and for a schema that is older or newer than VERSION.
    """
    found = read_version(database)
    if found == 0:
        found = migrate(database)
    if found > VERSION:
        raise ContentError(
            f"the database was made by a newer Patchbay: its schema is {found}, this program knows {VERSION}; use that"
            " version"
        )
    if found < VERSION:
        raise ContentError(
            f"the schema of the database is {found}, this program needs {VERSION}: run `patchbay store migrate`"
        )


def read_version(database: Database) -> int:
    """Return the version of the schema; 0 for an empty database. Raises ContentError for another program's tables."""
    return database.run(_read_version)


def migrate(database: Database) -> int:
    """Apply the files that the database lacks, in one transaction; return its version then."""

    def work(connection: Connection) -> int:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/schema', 0))")
            found = _read_version(connection)
            if found == 0:
                connection.execute("CREATE TABLE IF NOT EXISTS patchbay_schema (version integer NOT NULL)")
                connection.execute("INSERT INTO patchbay_schema VALUES (0)")
            for number in range(found + 1, VERSION + 1):
                connection.execute(_read_file(number))
                connection.execute("UPDATE patchbay_schema SET version = %s", (number,))
            _prepare_jobs(connection)
            return max(found, VERSION)

    return database.run(work, answer_seconds=LONG_ANSWER_SECONDS)


def _prepare_jobs(connection: Connection) -> None:
    from patchbay.stores.postgresql.jobs import prepare_jobs

    if connection.execute("SELECT to_regclass('jobs_schema')").fetchone() != (None,):
        prepare_jobs(connection)


def _read_version(connection: Connection) -> int:
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
    query = f"SELECT to_regclass('patchbay_schema') IS NOT NULL, ({tables})".encode()
    has_version, count = connection.execute(query).fetchone() or (False, 0)
    if not has_version:
        if count:
            raise ContentError(FOREIGN)
        return 0
    row = connection.execute("SELECT version FROM patchbay_schema").fetchone()
    return int(row[0]) if row else 0


def _read_file(number: int) -> bytes:
    """Return the statements of one file, which begin with the version that they lead to."""
    return (files(__package__) / "migrations" / f"{number:03d}.sql").read_bytes()
