"""The SQLite file: its schema, one writer, a pool of readers, and the conversion of SQLite's errors.

Rules: every change is one short `BEGIN IMMEDIATE` transaction under the write lock of this process, so that only
different processes wait at SQLite's own lock (`busy_timeout`); readers never wait (WAL). `close` closes every
connection.
Sources: https://sqlite.org/wal.html, https://sqlite.org/pragma.html#pragma_synchronous.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from patchbay.errors import ContentError, StoreFailed
from patchbay.sqlite import Fault, fault_of, known_defect, sqlite3
from patchbay.store import CLOSED

log = logging.getLogger(__name__)

VERSION = 2
"""Version of the schema, stored in `user_version`."""

INCREMENTAL = 2
"""The value of `PRAGMA auto_vacuum` with which free pages are given back in steps."""

VACUUM_STEP_PAGES = 1000
"""Pages that one short step gives back to the file system: 4 MiB."""

LOCK_WAIT_SECONDS = 15.0
"""Seconds to wait for another process that writes."""

MAX_IDLE_READERS = 16
"""Limit on the open read connections that wait for the next reader."""

SCHEMA = """
CREATE TABLE blobs (cid TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE moves (seq INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, cid TEXT,
                    at REAL NOT NULL, who TEXT NOT NULL, why TEXT NOT NULL);
CREATE INDEX moves_by_name ON moves (name, seq);
CREATE TABLE names (name TEXT PRIMARY KEY, cid TEXT NOT NULL,
                    seq INTEGER NOT NULL REFERENCES moves (seq)) WITHOUT ROWID;
CREATE TABLE journal (seq INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, data BLOB NOT NULL,
                      at REAL NOT NULL, until REAL);
CREATE INDEX journal_by_topic ON journal (topic, seq);
CREATE INDEX journal_by_end ON journal (until) WHERE until IS NOT NULL;
CREATE TABLE messages (seq INTEGER PRIMARY KEY AUTOINCREMENT, process TEXT NOT NULL, topic TEXT NOT NULL,
                       message BLOB NOT NULL, at REAL NOT NULL);
CREATE INDEX messages_by_time ON messages (at);
"""

BLOB_TIMES = """
CREATE TABLE blob_times (cid TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX blob_times_by_time ON blob_times (at);
INSERT INTO blob_times (cid, at) SELECT cid, 9e999 FROM blobs;
"""
"""From version 1 to 2: when each blob was last put. Blobs of before are never collected, because profiles outside of
the store may refer to them."""


NEXT_STEPS: Mapping[Fault, str] = {
    "full": "free space on its disk: `patchbay doctor` says how",
    "unwritable": "make its folder writable, or use another folder (--data); `patchbay doctor` says why it is not",
    "damaged": "stop the hub, and put a copy of the data folder in its place, or save what is readable"
    " (docs/operation.md: A full, read-only or damaged disk)",
    "other": "`patchbay doctor` checks it",
}
"""The next step of the operator after a fault."""


@contextmanager
def own_errors(path: Path) -> Iterator[None]:
    """Convert SQLite's errors to StoreFailed; callers get no paths and no values."""
    try:
        yield
    except sqlite3.Error as problem:
        raise StoreFailed(
            f"the store failed: {problem}; the operator of the hub finds the cause in its log",
            f"the store failed: {problem}, in {path}: {NEXT_STEPS[fault_of(problem)]}",
        ) from problem


def describe_library() -> tuple[str, str | None]:
    """Return the version of the SQLite library, and its known defect as a sentence."""
    return sqlite3.sqlite_version, known_defect()


def check_file(path: Path) -> tuple[Fault, str] | None:
    """Check a database without changing it; return what is wrong, or None. It reads the whole file.

    Source: https://sqlite.org/pragma.html#pragma_quick_check.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as problem:
        return fault_of(problem), f"{path} cannot be read: {problem}"
    return None if found == "ok" else ("damaged", f"{path} is damaged: {str(found).splitlines()[-1]}")


class Database:
    """The database in one file. Raises ContentError for a file of another program."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = False
        defect = known_defect()
        if defect:
            log.warning("%s", defect)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            sentence = f"the data folder {path.parent} cannot be created: {problem.strerror}; --data names another one"
            raise StoreFailed(sentence, sentence) from problem
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its further files the same mode
        except OSError as problem:
            sentence = f"the database {path} cannot be opened: {problem.strerror}; {NEXT_STEPS['unwritable']}"
            raise StoreFailed(sentence, sentence) from problem
        with own_errors(path):
            _prepare(path)
            self._durable = connect(path, "FULL")
            self._quick = connect(path, "NORMAL")

    @contextmanager
    def write(self, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Open a write transaction; an exception in the block rolls it back.

        `durable` waits for the disk; without it, a power cut may lose the last transactions.
        """
        with self._lock, own_errors(self.path):
            self._check_open()
            connection = self._durable if durable else self._quick
            try:
                # The interrupt of a tool can come at any step: after BEGIN, or in place of an earlier ROLLBACK.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for reading; each statement sees one consistent state."""
        with own_errors(self.path):
            self._check_open()
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = connect(self.path, "NORMAL")
            try:
                yield connection
            finally:
                self._idle.append(connection)
                self._trim(0 if self._closed else MAX_IDLE_READERS)

    def give_back(self, whole: bool) -> int:
        """Give free pages back to the file system; answers the bytes. With `whole`, rewrite a file that cannot do so.

        Source: https://sqlite.org/pragma.html#pragma_auto_vacuum.
        """
        with self._lock, own_errors(self.path):
            self._check_open()
            connection = self._quick
            before, size = (_pragma(connection, name) for name in ("page_count", "page_size"))
            if _pragma(connection, "auto_vacuum") == INCREMENTAL:
                pages = _pragma(connection, "freelist_count") if whole else VACUUM_STEP_PAGES
                connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
            elif whole:
                connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
                connection.execute("VACUUM")
            if whole:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            # Another process may have added pages meanwhile.
            return max(0, before - _pragma(connection, "page_count")) * size

    def close(self) -> None:
        """Close every connection; a connection in use closes when its reader ends. Closing twice is harmless."""
        with self._lock:
            self._closed = True
            self._trim(0)
            self._quick.close()
            self._durable.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ContentError(CLOSED)

    def _trim(self, limit: int) -> None:
        while len(self._idle) > limit:
            try:
                self._idle.popleft().close()
            except IndexError:  # another thread closed it first
                return


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """Return a connection in autocommit mode that any thread may use, one at a time."""
    connection = sqlite3.connect(path, timeout=LOCK_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(path: Path) -> None:
    """Create the schema in WAL mode, also if several processes do so at once."""
    until = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        connection = connect(path, "FULL")
        try:
            connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")  # counts for a file without tables only
            connection.execute("PRAGMA journal_mode = WAL")
            _migrate(connection)
            return
        except sqlite3.OperationalError as problem:
            # The change to WAL fails with "locked" at once, without the busy timeout, if another process makes it too.
            if "locked" not in str(problem) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        finally:
            connection.close()


def _migrate(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
        return  # without a write: the disk may be full
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise ContentError(
            f"the database was made by a newer Patchbay: its schema is {version}, this program knows {VERSION};"
            " use that version, or another data folder"
        )
    if version == 0:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if tables:
            raise ContentError("the database belongs to another program: it has tables but no schema version")
        _run(connection, SCHEMA)
    if version < 2:
        _run(connection, BLOB_TIMES)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _run(connection: sqlite3.Connection, statements: str) -> None:
    """Run statements that `;` separates within the present transaction, which `executescript` would end."""
    for statement in statements.split(";"):
        connection.execute(statement)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
