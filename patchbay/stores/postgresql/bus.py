"""The bus across processes and machines: readers in this process get a message at once, others through a row.

A thread writes the messages of this process, several with one statement, and then gives a hint (`NOTIFY` without a
payload, outside of every transaction that matters). Each process with subscriptions has one connection that listens for
hints; it reads the rows after the last one that it knows. Numbers of rows that it has not seen yet may still be
committed: it looks for them until each transaction that was running has ended. Without hints it reads once a second.

`NOTIFY` inside other transactions would make all commits of the database wait for one lock, its payloads end at 8,000
bytes, and what arrives while the connection is broken is lost: so the rows carry the messages.
Sources: https://www.postgresql.org/docs/current/sql-notify.html, functions-info.html (snapshots).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from uuid import uuid4

from patchbay.background import BackgroundLoop
from patchbay.errors import ContentError
from patchbay.store import CLOSED
from patchbay.stores.bus import LocalBus, LocalSubscription
from patchbay.stores.postgresql.bus_reader import BusReader
from patchbay.stores.postgresql.database import Connection, Database

log = logging.getLogger(__name__)

MESSAGE_SECONDS = 60.0
"""Lifetime of a message in its table."""

SWEEP_SECONDS = 15.0
"""Seconds between two deletions of old messages."""

CLOSE_SECONDS = 5.0
"""Seconds in which the messages that wait are written at the end."""

HINT_SECONDS = 0.01
"""Least time between two hints of one process."""

MAX_QUEUED = 10_000
"""Messages that wait to be written; a longer queue drops its oldest message."""

MAX_BATCH = 500
"""Messages that one statement writes."""

INSERT = (
    b"INSERT INTO messages (process, topic, message)"
    b" SELECT %s, topic, message FROM unnest(%s::text[], %s::bytea[]) WITH ORDINALITY AS new (topic, message, place)"
    b" ORDER BY place"
)


class PostgresqlBus:
    """Hints between threads, processes and machines that share one database."""

    def __init__(self, database: Database, address: str) -> None:
        self._database = database
        self._address = address
        self._local = LocalBus()
        self._process = uuid4().hex
        self._lock = threading.Lock()
        self._writer: _MessageWriter | None = None
        self._reader: BusReader | None = None
        self._closed = False

    def publish(self, topic: str, message: bytes = b"") -> None:
        """Deliver a message in this process at once, and in other processes within some hundredths of a second.

        While the database is away, messages wait in a bounded queue. A message is only a hint, so the work that it
        reports never fails.
        """
        self._local.publish(topic, message)
        with self._lock:
            if self._closed:
                return
            if self._writer is None:
                self._writer = _MessageWriter(self._database, self._process)
            writer = self._writer
        writer.add(topic, message)

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
            if self._reader is None:
                try:
                    self._reader = BusReader(self._database, self._address, self._process, self._local)
                except BaseException:
                    reader.close()
                    raise
        return reader

    def close(self) -> None:
        """Write the messages that wait, if the database answers, and close every subscription."""
        with self._lock:
            self._closed = True
            writer, self._writer = self._writer, None
            reader, self._reader = self._reader, None
        if writer is not None:
            writer.close()
        if reader is not None:
            reader.close()
        self._local.close()


class _MessageWriter:
    """The thread that writes the messages of this process."""

    def __init__(self, database: Database, process: str) -> None:
        self._database = database
        self._process = process
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._lock = threading.Lock()
        self._dropped = 0
        self._swept = 0.0
        name = "patchbay-bus-writer"
        self._loop = BackgroundLoop(name, self._run, "writing messages failed", finish=self._write_rest)
        self._loop.start()

    def add(self, topic: str, message: bytes) -> None:
        """Queue a message; a full queue drops its oldest message."""
        with self._lock:
            if len(self._waiting) >= MAX_QUEUED:
                self._waiting.popleft()
                self._dropped += 1
            self._waiting.append((topic, message))
        self._loop.wake()

    def close(self) -> None:
        """Write the messages that wait, for CLOSE_SECONDS at most."""
        self._loop.close(CLOSE_SECONDS)

    def _run(self) -> float:
        """Write one batch; return the seconds until the next one."""
        if not self._write_batch():
            return threading.TIMEOUT_MAX
        # Messages that come meanwhile form the next batch, so this waits for the end alone.
        self._loop.ending.wait(HINT_SECONDS)
        return 0.0

    def _write_rest(self) -> None:
        while self._write_batch():
            pass

    def _write_batch(self) -> bool:
        """Write the messages that wait, at most MAX_BATCH; return whether there were any."""
        batch = self._next_batch()
        if not batch:
            return False
        try:
            self._write(batch)
            if self._database.clock.now() > self._swept + SWEEP_SECONDS:
                self._swept = self._database.clock.now()
                self._database.count("DELETE FROM messages WHERE at < store_time() - %s", (MESSAGE_SECONDS,))
        except ContentError as problem:
            log.warning("%d messages did not reach other processes: %s", len(batch), problem)
        return True

    def _next_batch(self) -> list[tuple[str, bytes]]:
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
            dropped, self._dropped = self._dropped, 0
        if dropped:
            log.warning("%d messages were dropped before they reached other processes: the queue was full", dropped)
        return batch

    def _write(self, batch: Sequence[tuple[str, bytes]]) -> None:
        given = (self._process, [topic for topic, _ in batch], [message for _, message in batch])

        def work(connection: Connection) -> None:
            # Only a commit that has moved the sequence waits for the disk, each 32nd: after a crash it never goes back.
            connection.execute(INSERT, given)
            connection.execute("NOTIFY patchbay_messages")

        self._database.run(work)
