"""The bus across processes: readers in this process get a message at once, other processes through a row.

Each process with subscriptions has one daemon thread. Every POLL_SECONDS it asks SQLite whether another connection has
committed (`PRAGMA data_version`, which reads no page), and reads new rows only then. `publish` deletes rows after a
minute.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from uuid import uuid4

from patchbay.background import BackgroundLoop
from patchbay.errors import ContentError
from patchbay.sqlite import sqlite3
from patchbay.store import CLOSED
from patchbay.stores.bus import LocalBus, LocalSubscription
from patchbay.stores.sqlite.database import Database, connect, own_errors

log = logging.getLogger(__name__)

POLL_SECONDS = 0.075
"""Seconds between two polls of the database."""

MESSAGE_SECONDS = 60.0
"""Lifetime of a message in its table."""


class SqliteBus:
    """Hints between threads and processes that share one database file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._local = LocalBus()
        self._process = uuid4().hex
        self._swept = float("-inf")
        self._lock = threading.Lock()
        self._poller: _Poller | None = None
        self._closed = False

    def publish(self, topic: str, message: bytes = b"") -> None:
        """Deliver a message in this process at once, and in other processes within about a tenth of a second.

        If the database is not writable, other processes miss the message and the log has a warning: a message is only
        a hint, so the work that it reports must not fail.
        """
        self._local.publish(topic, message)
        now = time.time()
        try:
            with self._database.write(durable=False) as connection:
                query = "INSERT INTO messages (process, topic, message, at) VALUES (?, ?, ?, ?)"
                connection.execute(query, (self._process, topic, message, now))
                if time.monotonic() - self._swept > MESSAGE_SECONDS / 4:
                    connection.execute("DELETE FROM messages WHERE at < ?", (now - MESSAGE_SECONDS,))
                    self._swept = time.monotonic()
        except ContentError as problem:
            log.warning("a message on %s did not reach other processes: %s", topic, problem)

    def publish_here(self, topic: str, message: bytes = b"") -> None:
        """Deliver a message in this process only."""
        self._local.publish(topic, message)

    def problem(self) -> str | None:
        """Return None: `Store.check` says whether it works."""
        return None

    def subscribe(self, topics: Sequence[str], size: int = 256) -> LocalSubscription:
        """Subscribe to topics; a topic that ends in `*` matches by prefix. The subscription is active on return."""
        with self._lock:
            if self._closed:
                raise ContentError(CLOSED)
            reader = self._local.subscribe(topics, size)
            if self._poller is None:
                self._poller = _Poller(self._database, self._process, self._local)
        return reader

    def close(self) -> None:
        with self._lock:
            self._closed = True
            poller, self._poller = self._poller, None
        if poller is not None:
            poller.close()
        self._local.close()


class _Poller:
    """The thread that delivers messages of other processes. It starts after the newest existing row."""

    def __init__(self, database: Database, process: str, local: LocalBus) -> None:
        self._process = process
        self._local = local
        self._seen = -1
        self._is_failing = False
        with own_errors(database.path):
            self._connection = connect(database.path, "NORMAL")
            row = self._connection.execute("SELECT coalesce(max(seq), 0) FROM messages").fetchone()
        self._last = int(row[0])
        self._loop = BackgroundLoop("patchbay-bus", self._poll, "reading the messages of other processes failed")
        self._loop.start()

    def close(self) -> None:
        self._loop.close(threading.TIMEOUT_MAX)
        self._connection.close()

    def _poll(self) -> float:
        try:
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            if version != self._seen:
                self._deliver()
                self._seen = version
            self._is_failing = False
        except sqlite3.Error as problem:
            if not self._is_failing:
                log.warning("reading the messages of other processes failed: %s", problem)
            self._is_failing = True
        return POLL_SECONDS

    def _deliver(self) -> None:
        query = "SELECT seq, process, topic, message FROM messages WHERE seq > ? ORDER BY seq"
        for seq, process, topic, message in self._connection.execute(query, (self._last,)).fetchall():
            if process != self._process:
                self._local.publish(topic, message)
            self._last = seq
