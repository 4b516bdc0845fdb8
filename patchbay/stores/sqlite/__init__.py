"""A store in one SQLite file: the default for a hub on one machine.

After `put`, `move` or `append` returns, the data is on the disk, also after `kill -9` and, if the disk honours a sync,
after a power cut. Entries and messages with a lifetime (`keep`, the bus) survive a crash of the process, but a power
cut may lose the last of them. Several processes may open the same file; each opens its own store after the fork.
"""

from __future__ import annotations

from pathlib import Path

from patchbay.errors import ContentError
from patchbay.store import DATABASE_FILE, Blobs, Bus, Collection, Jobs, Journal, Names, Transfer
from patchbay.stores.bus import machine_order_token
from patchbay.stores.folder_lock import FolderLock
from patchbay.stores.sqlite.blobs import SqliteBlobs
from patchbay.stores.sqlite.bus import SqliteBus
from patchbay.stores.sqlite.collection import SqliteCollection
from patchbay.stores.sqlite.database import Database
from patchbay.stores.sqlite.journal import SqliteJournal
from patchbay.stores.sqlite.names import SqliteNames
from patchbay.stores.sqlite.transfer import SqliteTransfer


class SqliteStore:
    """Blobs, names, journal and bus in `<folder>/patchbay.sqlite3`. Raises ContentError for an unusable file.

    `lock` is the lock on the folder; `close` releases it.
    """

    is_shared = False
    jobs: Jobs | None = None

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
        self.transfer: Transfer | None = SqliteTransfer(self._database)
        self._bus = SqliteBus(self._database)
        self.bus: Bus = self._bus

    def now(self) -> float:
        return self.journal.now()

    def order_token(self) -> bytes:
        return machine_order_token()

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
