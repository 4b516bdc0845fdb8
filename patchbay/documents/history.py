"""The history of a library: every version of every document under its CID, with the time of each change.

The history is an SQLite file beside the documents. An entry is on the disk before its write returns. Documents with
equal content share one stored version. Times are Unix time in seconds.
Source: https://www.sqlite.org/atomiccommit.html.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from patchbay.cid import cid_of, verify
from patchbay.documents.errors import NoDocument, Unreadable
from patchbay.sqlite import Fault, fault_of, sqlite3

log = logging.getLogger(__name__)

LOCK_WAIT_SECONDS = 30.0
"""Seconds that a write waits for another process."""

MAX_VERSIONS = 1000
"""Limit on the versions of one document that `of` returns."""

SMALL_BYTES = 16 * 1024
"""Bytes of the largest version that is compressed with a window of 4 KiB."""

DISK_FAULTS: tuple[Fault, ...] = ("full", "unwritable")
"""Faults that end when the disk has space, or can be written, again."""

DISK_STEP = (
    "documents can be read and searched; to change them, free space on the disk of the library, or make it writable"
)

_TABLES = """
CREATE TABLE IF NOT EXISTS content (cid TEXT PRIMARY KEY NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS version (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, cid TEXT, at REAL NOT NULL, how TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS of_key ON version (key, seq);
"""


@dataclass(frozen=True, slots=True)
class Version:
    """One change of a document: its new CID (None: deleted), the time, and the kind of change."""

    cid: str | None
    at: float
    how: str


class History:
    """The versions of a library in one file. Safe for many threads and processes.

    A damaged file is renamed, with an error in the log, and a new history begins. A file that is temporarily unusable
    (another process locks it, the disk is full) stays: raises sqlite3.OperationalError.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._path = path
        self._warned = False
        try:
            self._connection = _open(path)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as problem:
            aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
            log.error("the history %s is damaged (%s); it was renamed to %s", path.name, problem, aside.name)
            path.rename(aside)
            for rest in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    path.with_name(path.name + rest).unlink()
            self._connection = _open(path)
        self._closer = weakref.finalize(self, self._connection.close)

    def add(self, entries: Iterable[tuple[str, bytes | None, str]]) -> None:
        """Add changes of documents in one transaction: key, bytes (None: deleted), kind of change.

        Skips a document whose content equals its newest version.
        """
        with self._lock, self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            for key, data, how in entries:
                cid = None if data is None else cid_of(data)
                latest = self._latest(key)
                if latest == (cid,) or (cid is None and latest is None):
                    continue
                if data is not None:
                    self._connection.execute("INSERT OR IGNORE INTO content VALUES (?, ?)", (cid, _compress(data)))
                self._connection.execute(
                    "INSERT INTO version (key, cid, at, how) VALUES (?, ?, ?, ?)", (key, cid, time.time(), how)
                )

    def add_if_possible(self, entries: Iterable[tuple[str, bytes | None, str]]) -> None:
        """Add changes of documents that are made already; where the disk is full or read-only, log that once.

        Nothing is lost: each later change of the document first adds the version that it replaces.
        """
        try:
            self.add(entries)
            self._warned = False
        except sqlite3.Error as problem:
            if fault_of(problem) not in DISK_FAULTS:
                raise
            if not self._warned:
                log.warning("the history %s misses changes (%s): %s", self._path, problem, DISK_STEP)
            self._warned = True

    def of(self, key: str) -> list[Version]:
        """Return the versions of a document, newest first, at most MAX_VERSIONS."""
        sql = "SELECT cid, at, how FROM version WHERE key = ? ORDER BY seq DESC LIMIT ?"
        with self._lock:
            return [Version(*row) for row in self._connection.execute(sql, (key, MAX_VERSIONS))]

    def read(self, key: str, cid: str) -> bytes:
        """Return the bytes of a version of a document. Raises NoDocument."""
        sql = "SELECT data FROM content JOIN version USING (cid) WHERE key = ? AND cid = ? LIMIT 1"
        with self._lock:
            row = self._connection.execute(sql, (key, cid)).fetchone()
        if row is None:
            raise NoDocument(f"{key} has no version {cid}")
        data = zlib.decompress(row[0])
        verify(cid, data)
        return data

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closer()

    def _latest(self, key: str) -> tuple[str | None] | None:
        sql = "SELECT cid FROM version WHERE key = ? ORDER BY seq DESC LIMIT 1"
        found: tuple[str | None] | None = self._connection.execute(sql, (key,)).fetchone()
        return found


def _compress(data: bytes) -> bytes:
    """Compress bytes with zlib; a small window saves most of the time for a small document."""
    window, memory = (12, 5) if len(data) <= SMALL_BYTES else (15, 8)
    packer = zlib.compressobj(1, zlib.DEFLATED, window, memory)
    return packer.compress(data) + packer.flush()


def _open(path: Path) -> sqlite3.Connection:
    """Open or create the file. Raises sqlite3.DatabaseError for a damaged file or another kind of file."""
    connection = sqlite3.connect(path, timeout=LOCK_WAIT_SECONDS, check_same_thread=False, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(_TABLES)
        connection.execute("SELECT count(*) FROM version").fetchone()
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


@contextmanager
def log_failures(root: Path, what: str) -> Iterator[None]:
    """Log the details of a failure in the library `root`; the caller gets only the message. Raises Unreadable."""
    try:
        yield
    except Unreadable as problem:
        cause = problem.__cause__ or problem
        log.warning("the library %s failed at %s: %s (%r)", root, what, problem.message, cause)
        raise
    except sqlite3.Error as problem:
        log.warning("the history of the library %s failed at %s: %s", root, what, problem)
        raise Unreadable(f"the history of this library failed ({problem}): {DISK_STEP}") from problem
