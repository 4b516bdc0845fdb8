"""A store in one SQLite file: the default of a hub on one machine.

What it promises: whatever `put`, `move` or `append` has answered for is on the disk, also after
`kill -9` and, if the disk obeys, after a power cut. Entries and messages with an end (`keep`, the
bus) survive a crash of the process, but the last of them may be lost with the power.
Several processes may open the same file; each opens its own store, after it was forked.
"""

from __future__ import annotations

from pathlib import Path

from patchbay.errors import ContentError
from patchbay.store import DATABASE_FILE, Blobs, Bus, Collection, Journal, Names
from patchbay.stores.folder_lock import FolderLock
from patchbay.stores.sqlite.blobs import SqliteBlobs
from patchbay.stores.sqlite.bus import SqliteBus
from patchbay.stores.sqlite.collection import SqliteCollection
from patchbay.stores.sqlite.database import Database
from patchbay.stores.sqlite.journal import SqliteJournal
from patchbay.stores.sqlite.names import SqliteNames


class SqliteStore:
    """The four together, in `<folder>/patchbay.sqlite3`. Raises ContentError when the file cannot be used.

    `lock` is the lock on the folder, which ends with the store.
    """

    def __init__(self, folder: Path, lock: FolderLock | None = None) -> None:
        self._lock = lock
        try:
            self._database = Database(folder / DATABASE_FILE)
        except BaseException:
            self._unlock()
            raise
        self.blobs: Blobs = SqliteBlobs(self._database)
        self.collection: Collection = SqliteCollection(self._database)
        self.names: Names = SqliteNames(self._database)
        self.journal: Journal = SqliteJournal(self._database)
        self._bus = SqliteBus(self._database)
        self.bus: Bus = self._bus

    def check(self) -> str | None:
        try:
            with self._database.read() as connection:
                connection.execute("SELECT max(seq) FROM moves").fetchone()
        except ContentError as problem:
            return problem.message
        return None

    def close(self) -> None:
        self._bus.close()
        self._database.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
