"""The connections to PostgreSQL, repeated attempts, and the conversion of its errors.

Rules: each use of a connection is one statement or one short transaction, so that a pooler of transactions may stand
between; every write is a repeatable one (it carries an id, or has the same effect twice). So a connection that ends, a
server that restarts and a lost answer to a commit are handled alike: try again on a new connection.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from patchbay.errors import ContentError, StoreAway
from patchbay.store import CLOSED
from patchbay.stores.postgresql.address import describe_address, parse_address, set_limits
from patchbay.stores.postgresql.clock import StoreClock
from patchbay.stores.postgresql.connection import ANSWER_SECONDS, LONG_ANSWER_SECONDS, LimitedConnection, Row

log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0
"""Seconds after the beginning of an outage in which a write is tried again."""

READ_SECONDS = 2.0
"""Seconds after the beginning of an outage in which a read is tried again: what can do without it waits no longer."""

PROBE_SECONDS = 0.5
"""Seconds between two attempts, of all threads together, during a longer outage; other work fails at once."""

PAUSE_SECONDS = 0.1
"""Seconds between two attempts."""

CONNECTION_SECONDS = 5.0
"""Seconds to wait for a connection while all of them are in use."""

CHECK_SECONDS = 2.0
"""Seconds that `check` waits for an answer."""

MAX_CONNECTIONS = 8
"""Connections of one process, without the one that listens."""

IDLE_SECONDS = 60.0
"""Seconds after which an unused connection is closed; one stays."""

TRANSIENT = frozenset({"25006", "25P03", "40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03", "57P05"})
"""SQLSTATEs after which the same work may succeed: a read-only server after a fail-over, a transaction that ended while
this process was suspended, deadlocks, a server that starts or stops, too many connections."""

STALE, MISSING = "PB001", "PB002"
"""SQLSTATEs of our own functions: a newer change, missing blobs."""

Connection = psycopg.Connection[Row]
Answer = TypeVar("Answer")


class Database:
    """The database of one address. Raises ConfigError for a wrong address; the first use opens a connection."""

    def __init__(self, address: str, limit: int = MAX_CONNECTIONS) -> None:
        self.address = address
        self._closed = False
        self._away_since: float | None = None
        self._probed = 0.0
        self._lock = threading.Lock()
        # A pool that waits longer between two attempts would come back late after an outage.
        self._pool: ConnectionPool[LimitedConnection] = ConnectionPool(
            parse_address(address),
            connection_class=LimitedConnection,
            kwargs={"autocommit": True, "prepare_threshold": None},
            min_size=1,
            max_size=limit,
            configure=set_limits,
            max_idle=IDLE_SECONDS,
            reconnect_timeout=1.5,
            num_workers=1,
            name="patchbay",
            open=False,
        )
        # Its warnings of each attempt say what our own one says once.
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
        self._pool.open()
        self.clock = StoreClock(lambda: float(self.read_one("SELECT store_time()")[0]))

    def run(
        self,
        work: Callable[[Connection], Answer],
        patience: float | None = None,
        answer_seconds: float | None = None,
    ) -> Answer:
        """Do repeatable work with a connection; try it again when the connection fails.

        `patience` is the time of the attempts from the beginning of an outage, by default RETRY_SECONDS. A server that
        is silent for `answer_seconds`, by default ANSWER_SECONDS, counts as away.

        Raises StoreAway when the database does not answer, ContentError for another error.
        """
        begun, patience = time.monotonic(), RETRY_SECONDS if patience is None else patience
        while True:
            is_probe = self._has_given_up(patience)
            if is_probe and not self._may_probe():
                raise StoreAway(f"the database {describe_address(self.address)} does not answer")
            try:
                answer = self._attempt(work, CHECK_SECONDS if is_probe else answer_seconds or ANSWER_SECONDS)
            except (psycopg.Error, PoolTimeout) as problem:
                if not _is_transient(problem):
                    raise ContentError(f"the store failed: {describe(problem)}") from problem
                self._note_failure(problem, begun)
                if self._has_given_up(patience):
                    raise StoreAway(f"the database {describe_address(self.address)} does not answer") from problem
                time.sleep(PAUSE_SECONDS)
                continue
            self._note_success()
            return answer

    def execute(self, query: str, given: Sequence[Any] | dict[str, Any] = ()) -> list[Row]:
        """Run one repeatable statement; return its rows."""

        def work(connection: Connection) -> list[Row]:
            cursor = connection.execute(query.encode(), given, binary=True)
            return cursor.fetchall() if cursor.description else []

        return self.run(work, READ_SECONDS)

    def read_one(self, query: str, given: Sequence[Any] | dict[str, Any] = ()) -> Row:
        """Run a statement with exactly one row; return the row."""
        return self.execute(query, given)[0]

    def count(self, query: str, given: Sequence[Any] = ()) -> int:
        """Run a statement that changes rows, possibly many; return their number."""

        def work(connection: Connection) -> int:
            return connection.execute(query.encode(), given).rowcount

        return self.run(work, answer_seconds=LONG_ANSWER_SECONDS)

    def check(self) -> str | None:
        """Return None if the database can be written, else a sentence. One attempt, which takes CHECK_SECONDS."""
        try:
            if self._closed:
                return CLOSED
            with self._lend(CHECK_SECONDS, CHECK_SECONDS) as connection, connection.transaction():
                connection.execute(f"SET LOCAL statement_timeout = {int(CHECK_SECONDS * 1000)}")
                query = "SELECT current_setting('transaction_read_only'), max(seq) FROM moves"
                row = connection.execute(query).fetchone()
        except (psycopg.Error, PoolTimeout) as problem:
            return f"the database does not answer: {describe(problem)}"
        if row is None or row[0] != "off":
            return "the database is read-only: it is a replica, or a primary that was replaced"
        self._note_success()
        return None

    def close(self) -> None:
        """Close every connection. Closing twice is harmless."""
        with self._lock:
            was_closed, self._closed = self._closed, True
        if not was_closed:
            self._pool.close(timeout=1.0)

    def _attempt(self, work: Callable[[Connection], Answer], answer_seconds: float) -> Answer:
        if self._closed:
            raise ContentError(CLOSED)
        try:
            # During an outage there is no connection to wait for.
            with self._lend(CONNECTION_SECONDS if self._away_since is None else 1.0, answer_seconds) as connection:
                return work(connection)
        except PoolClosed as problem:
            raise ContentError(CLOSED) from problem

    @contextmanager
    def _lend(self, timeout: float, answer_seconds: float) -> Iterator[Connection]:
        """Lend a connection for some statements, each of which may take `answer_seconds` without a sign of the server.

        Raises PoolTimeout after `timeout` seconds without a free connection.
        """
        with self._pool.connection(timeout=timeout) as connection:
            connection.answer_seconds = answer_seconds
            yield connection

    def _has_given_up(self, patience: float) -> bool:
        """Whether there is an outage that lasts longer than work has patience."""
        since = self._away_since
        return since is not None and time.monotonic() > since + patience

    def _may_probe(self) -> bool:
        """Whether this thread may find out if the outage is over."""
        with self._lock:
            now = time.monotonic()
            if now < self._probed + PROBE_SECONDS:
                return False
            self._probed = now
            return True

    def _note_failure(self, problem: Exception, begun: float) -> None:
        with self._lock:
            if self._away_since is not None:
                return
            self._away_since = begun
        log.warning("the database %s does not answer: %s", describe_address(self.address), describe(problem))

    def _note_success(self) -> None:
        if self._away_since is None:
            return
        with self._lock:
            since, self._away_since = self._away_since, None
        if since is not None:
            log.warning("the database answers again, after %.1f s", time.monotonic() - since)


@contextmanager
def own_errors() -> Iterator[None]:
    """Convert errors of PostgreSQL, without a repeat: StoreAway for a connection, ContentError for another error."""
    try:
        yield
    except psycopg.Error as problem:
        kind = StoreAway if _is_transient(problem) else ContentError
        raise kind(f"the store failed: {describe(problem)}") from problem


def describe(problem: Exception) -> str:
    """Return an error in one line."""
    message = problem.diag.message_primary if isinstance(problem, psycopg.Error) else None
    return " ".join((message or str(problem)).split()) or type(problem).__name__


def _is_transient(problem: Exception) -> bool:
    if isinstance(problem, PoolTimeout):
        return True
    state = problem.sqlstate if isinstance(problem, psycopg.Error) else None
    if state is None:  # the client library noticed it: no answer, no connection
        return isinstance(problem, (psycopg.OperationalError, psycopg.InterfaceError))
    return state in TRANSIENT or state.startswith("08")
