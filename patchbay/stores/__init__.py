"""The implementations of `patchbay.store.Store`; `open_store` selects one by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from patchbay.errors import ConfigError
from patchbay.store import Store, is_database_address
from patchbay.stores.findings import Finding
from patchbay.stores.folder_lock import share_folder
from patchbay.stores.memory import MemoryStore
from patchbay.stores.sqlite import SqliteStore

KINDS = ("memory", "sqlite")


def open_store(
    kind: str, folder: Path, served: Mapping[str, str] | None = None, bus_address: str = "", blobs: str = ""
) -> Store:
    """Open the store of a kind in `folder`; make the folder if it is absent.

    An address such as `postgresql://user@host/db` opens the store of that database; `bus_address` is the address of the
    connection that listens there, if it is another one, and `blobs` that of a bucket for large contents; other stores
    need neither. `served` holds the settings that all hubs on this folder must
    share, None for a program that only reads. Raises ConfigError for an unknown kind, FolderInUse while a hub with
    other settings uses the folder, and ContentError for an unusable database.
    """
    if kind == "memory":
        return MemoryStore()
    if kind == "sqlite":
        return SqliteStore(folder, share_folder(folder, served) if served is not None else None)
    if is_database_address(kind):
        return _open_postgresql(kind, bus_address, blobs)
    expected = f"expected one of {', '.join(KINDS)}, or postgresql://user@host/db"
    raise ConfigError("the setting store", "", f"{expected}; got {kind!r}")


def migrate_store(kind: str) -> tuple[int, int]:
    """Bring the schema of a database up to date; return its versions before and after.

    Raises ConfigError for a store that is no database, ContentError for the database of another program.
    """
    if not is_database_address(kind):
        raise ConfigError("the setting store", "", "expected postgresql://user@host/db; others need no command")
    try:
        from patchbay.stores.postgresql.maintenance import migrate_database
    except ImportError as problem:
        raise _missing_extra(problem) from problem
    return migrate_database(kind)


def examine_store(kind: str, bus_address: str, blobs: str) -> list[Finding]:
    """Examine the database of an address: version, rights, clock, connections, bus, bucket. Raises ConfigError."""
    try:
        from patchbay.stores.postgresql.maintenance import examine_database
    except ImportError as problem:
        raise _missing_extra(problem) from problem
    return examine_database(kind, bus_address, blobs)


def _missing_extra(problem: ImportError) -> ConfigError:
    return ConfigError(
        "the setting store",
        "",
        f"a store in PostgreSQL needs the extra `cluster`: install `patchbay-hub[cluster]` ({problem})",
    )


def _open_postgresql(address: str, bus_address: str, blobs: str) -> Store:
    """Open the store of a database. Raises ConfigError without the packages of the extra `cluster`."""
    try:
        from patchbay.stores.postgresql import PostgresqlStore

        return PostgresqlStore(address, bus_address, blobs)
    except ImportError as problem:
        raise _missing_extra(problem) from problem
