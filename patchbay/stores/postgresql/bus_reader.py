"""The thread of a process that reads the messages of other processes, and measures the time of the database."""

from __future__ import annotations

import logging
import selectors
import socket
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from patchbay.background import BackgroundLoop
from patchbay.errors import ContentError
from patchbay.stores.bus import LocalBus
from patchbay.stores.postgresql.address import parse_address
from patchbay.stores.postgresql.connection import LimitedConnection
from patchbay.stores.postgresql.database import Database, describe

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""Seconds without a hint after which the rows are read anyway, and between two attempts to connect."""

GAP_SECONDS = 5.0
"""Least seconds for which an absent number is looked for: a transaction takes a number a moment before it is listed as
running.
"""

GAPS_BEFORE = 100
"""Numbers before the beginning that count as gaps if they are absent."""

MAX_GAPS = 10_000
"""Numbers that are looked for again; of more, the newest."""

CLOCK_SECONDS = 10.0
"""Seconds between two measurements of the database's time."""

RUNNING = (
    "SELECT pg_snapshot_xmin(now)::text::bigint, pg_snapshot_xmax(now)::text::bigint FROM pg_current_snapshot() AS now"
)
"""The oldest transaction that still runs, and the first one that has not begun."""

NEWEST = "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM message_seqs"
"""The newest number that was taken; a new sequence has a value that no row has taken yet."""

READ = "SELECT seq, process, topic, message FROM messages WHERE seq > %s OR seq = ANY(%s::bigint[]) ORDER BY seq"


@dataclass(slots=True)
class _Gap:
    """An absent number: since when, and behind which transaction none can have taken it (None: not asked yet)."""

    since: float
    behind: int | None = None


class BusReader:
    """Reads from the newest row on. It is active when the constructor returns. Raises ContentError."""

    def __init__(self, database: Database, address: str, process: str, local: LocalBus) -> None:
        self._database = database
        self._address = address
        self._process = process
        self._local = local
        self._gaps: dict[int, _Gap] = {}
        self._last = 0
        self._begin()
        self._woken, self._waker = socket.socketpair()
        self._connection: psycopg.Connection[Any] | None = None
        self._measured = time.monotonic()
        self._is_failing = False
        failure = "messages of other processes are read again"
        self._loop = BackgroundLoop("patchbay-bus", self._run, failure, finish=self._drop_connection)
        self._ending = self._loop.ending
        self._loop.start()

    def close(self) -> None:
        """End the thread."""
        self._loop.stop()
        self._waker.send(b"x")
        self._loop.join(2 * POLL_SECONDS)
        self._waker.close()
        self._woken.close()

    def _run(self) -> float:
        """Wait for a hint, and deliver; return the seconds until the next round."""
        try:
            self._wait_for_hint()
            if not self._ending.is_set():
                self.deliver()
                self._measure_clock()
            self._is_failing = False
            return 0.0
        except (psycopg.Error, ContentError) as problem:
            self._drop_connection()
            if not self._ending.is_set():
                if not self._is_failing:
                    log.warning("messages of other processes come once a second only: %s", describe(problem))
                self._is_failing = True
                self._poll()
            return POLL_SECONDS

    def _wait_for_hint(self) -> None:
        """Return after a hint, after POLL_SECONDS, or when this is newly connected."""
        if self._connection is None:
            self._connection = LimitedConnection.connect(parse_address(self._address), autocommit=True)
            self._connection.execute("LISTEN patchbay_messages")
            self._note_restart()
            return
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._connection.fileno(), selectors.EVENT_READ)
            waiting.register(self._woken, selectors.EVENT_READ)
            waiting.select(POLL_SECONDS)
        for _ in self._connection.notifies(timeout=0):
            pass

    def _poll(self) -> None:
        """Read the rows through the other connections, while no connection listens."""
        try:
            self.deliver()
        except ContentError as problem:
            log.debug("messages of other processes cannot be read: %s", problem)

    def deliver(self) -> None:
        """Read the new rows, and those whose numbers were absent, and deliver them in this process."""
        now = time.monotonic()
        oldest = self._oldest_running(now) if self._gaps else 0
        for seq, process, topic, message in self._database.execute(READ, (self._last, list(self._gaps))):
            self._note(seq, now)
            if process != self._process:
                self._local.publish(topic, message)
        # Those that are left were looked for after the end of each transaction that could have them.
        left = [(seq, gap) for seq, gap in self._gaps.items() if gap.behind is None or gap.behind > oldest]
        self._gaps = dict(left[-MAX_GAPS:])

    def _oldest_running(self, now: float) -> int:
        """Return the oldest transaction that still runs; note for gaps which transactions have to end first."""
        oldest, behind = self._database.read_one(RUNNING)
        for gap in self._gaps.values():
            if gap.behind is None and now - gap.since >= GAP_SECONDS:
                gap.behind = int(behind)
        return int(oldest)

    def _note(self, seq: int, now: float) -> None:
        if seq <= self._last:
            self._gaps.pop(seq, None)
            return
        for absent in range(max(self._last + 1, seq - MAX_GAPS), seq):
            self._gaps[absent] = _Gap(now)
        self._last = seq

    def _begin(self) -> None:
        """Begin behind the newest number; absent ones just before it may belong to transactions that still run."""
        (newest,) = self._database.read_one(NEWEST)
        self._last = int(newest)
        rows = self._database.execute("SELECT seq FROM messages WHERE seq > %s", (self._last - GAPS_BEFORE,))
        now = time.monotonic()
        absent = set(range(max(1, self._last - GAPS_BEFORE), self._last + 1)) - {row[0] for row in rows}
        self._gaps = {seq: _Gap(now) for seq in sorted(absent)}

    def _note_restart(self) -> None:
        """Begin again when the numbers did, as after a fail-over to a server that lacks the last of them."""
        (newest,) = self._database.read_one(NEWEST)
        if int(newest) < self._last:
            self._last, self._gaps = 0, {}

    def _measure_clock(self) -> None:
        if time.monotonic() - self._measured > CLOCK_SECONDS:
            self._database.clock.measure()
            self._measured = time.monotonic()

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
