"""Writes one record for every call, on a thread in the background.

A CallRecording (`call_recording.py`) collects the events and the ending of a call. A finished one goes into a queue
without a lock; a thread takes it, counts it (`call_counters.py`) and appends records to the journal in batches. A call
never waits for the disk, and a failure here does not fail a call.

While the store is away, the calls wait in the queue, and are written when it is back. The queue holds
`MAX_QUEUED_RECORDS` calls. A full queue drops newer calls: they are counted, but get no record.
Arguments and results are recorded only up to `KEPT` bytes each, and only while the queue is shorter than `AHEAD`. The
thread ends after some time without calls; the interpreter exits only after it has written the queue.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from patchbay.activity.audited_calls import QUEUE_FULL, AuditedCalls
from patchbay.activity.call_counters import CallCounters
from patchbay.activity.call_recording import CallRecording
from patchbay.activity.record_index import RANGE_RECORDS, EntrySummary, extend_index, summarize_rows
from patchbay.activity.records import (
    Filter,
    Page,
    Record,
    find,
    make_rows,
    recent,
)
from patchbay.activity.retention import KEPT, contents_mode, encode_content, estimate_sent, estimate_size, whole_digest
from patchbay.activity.stored_rows import encode_rows
from patchbay.activity.tracing import Tracing
from patchbay.catalogue.servers.server import Server
from patchbay.errors import PatchbayError, StoreAway
from patchbay.jsonrpc import Id, Rendered
from patchbay.messages.callers import LegacySession, TransportInfo
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.topics import ACTIVITY, ACTIVITY_INDEX

if TYPE_CHECKING:
    from patchbay.activity.telemetry import Telemetry

log = logging.getLogger(__name__)

MAX_QUEUED_RECORDS = 10_000
"""Limit on the calls in the queue."""

AHEAD = 1_000
"""Calls in the queue from which on arguments and results are not recorded."""

BATCH = 500
"""Limit on the records in one entry of the journal."""

EVERY, SOON = 0.5, 0.05
"""Seconds between two polls of the queue; the same while the hub stops."""

MAX_ENTRIES_SEARCHED = 100
"""Newest entries in which a write without an answer is looked for, once the store is back."""

MAX_EMPTY_POLLS = 4
"""Polls of an empty queue after which the thread ends."""

TRIM = 60.0
"""Seconds between two checks of the size of all records."""

MAX_KNOWN_ENTRIES = 64
"""Limit on the written entries whose summaries are kept for the index, so that it does not read them again."""

INDEX_SHARE = 8
"""The summaries of records may have this fraction of the bytes that records may have."""

DAY = 24 * 3600.0
NOTHING: Mapping[str, Any] = {}


class Activity:
    """The records of one process, and access to all records in the same store. Safe to use from many threads.

    `running` holds the running calls of this process, `counters` counts finished ones, `dropped` is the number of
    records lost to a full queue, `failed` the number lost to failures of the store other than its absence. `tracing`
    begins the spans. `every` is the number of seconds between two polls of the queue. `audit` gets every finished call
    too; None for a hub without an audit chain.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        tracing: Tracing | None = None,
        every: float = EVERY,
        audit: AuditedCalls | None = None,
    ) -> None:
        self.running: set[CallRecording] = set()
        self.counters = CallCounters()
        self.dropped = 0
        self.failed = 0
        self._store = store
        self.tracing = tracing or Tracing()
        self._telemetry: Telemetry | None = None
        self._contents = contents_mode(settings)
        self._keep = settings.activity_days * DAY
        self.audit = audit
        self._looks = (self._keep > 0 or audit is not None) and self._contents != "none"
        self._most = settings.activity_size
        self._queue: deque[CallRecording] = deque()
        self._counted: deque[CallRecording] = deque()
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._writing = threading.Lock()
        self._full = threading.Event()
        self._awake = False
        self._every = every
        self._trimmed = time.monotonic()
        self._unsummarized = RANGE_RECORDS
        self._written: dict[int, EntrySummary] = {}
        self._is_away = False
        self._unaudited: tuple[list[CallRecording], int | None, list[list[Any]]] | None = None

    def begin(
        self,
        method: str,
        name: str,
        server: Server,
        wire: TransportInfo,
        arguments: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        session: LegacySession | None = None,
        revision: str = "",
        id: Id | None = None,
    ) -> CallRecording:
        """Begin the recording of a call. `name` is the tool, the prompt or the URI; `meta` the request's `_meta`."""
        run = CallRecording(self, method, name, server, wire)
        run.revision = revision
        if session is not None:
            run.session = session
        if meta:
            run.client = meta.get("io.modelcontextprotocol/clientInfo")
        if self._looks and self.waiting < AHEAD:
            run.arguments = encode_content(arguments or NOTHING)
        if run.arguments is not None:
            run.sent = len(run.arguments)
        elif arguments and self._keep:
            run.sent = estimate_sent(arguments)
        if self.audit is not None:
            run.sender, run.grants = wire.sender, self.audit.grants()
            if run.arguments is None and self._looks:
                run.arguments_digest = whole_digest(arguments or NOTHING)
        if meta or self.tracing.active(run.begun):
            run.trace = self.tracing.begin(run, meta or NOTHING, id)
        return run

    def record_answer(self, run: CallRecording, answer: Mapping[str, Any] | Rendered) -> None:
        """Record the size of an answer and, if the settings allow it and it is small, the answer itself."""
        if isinstance(answer, Rendered):
            run.size = len(answer.data)
            return
        run.size = estimate_size(answer)
        if self._looks and run.size <= KEPT and self.waiting < AHEAD:
            run.answer = encode_content(answer)
            if run.answer is not None:
                run.size = len(run.answer)
        if self.audit is not None and run.answer is None and self._looks:
            run.answer_digest = whole_digest(answer)

    def enqueue(self, run: CallRecording) -> None:
        """Queue a finished call."""
        waiting = self.waiting
        if waiting >= MAX_QUEUED_RECORDS:
            self._drop(run)
            return
        self._queue.append(run)
        if not self._awake:
            self._wake()
        elif waiting == BATCH:
            self._full.set()

    @property
    def waiting(self) -> int:
        """The number of calls that are not written yet."""
        unaudited = self._unaudited
        return len(self._queue) + len(self._counted) + (len(unaudited[0]) if unaudited else 0)

    def recent(self, wanted: Filter, limit: int = 100, before: str | None = None, contents: bool = True) -> Page:
        """Return records of all processes, newest first; without `contents` they have no contents, which is faster.

        Raises InvalidParams if `before` is not the id of a record.
        """
        self.flush()
        return recent(self._store.journal, wanted, limit, before, contents)

    def find(self, id: str) -> Record | None:
        """Return one record by its id; None if it does not exist or is deleted."""
        self.flush()
        return find(self._store.journal, id)

    def count(self) -> None:
        """Count the calls in the queue, without using the store, which may be slow."""
        with self._counting:
            runs = [self._queue.popleft() for _ in range(len(self._queue))]
            self.counters.count(*runs)
            self._counted.extend(runs)

    def flush(self) -> None:
        """Write the calls in the queue. While the store is away they stay there."""
        with self._writing:
            self.count()
            try:
                while self._counted or self._unaudited:
                    self._write_batch()
                self._is_away = False
            except StoreAway as problem:
                if not self._is_away:
                    log.warning("the records of %d calls wait until the store is back: %s", self.waiting, problem)
                self._is_away = True

    def hurry(self) -> None:
        """Write new calls at once, because the hub stops."""
        self._every = SOON
        self._full.set()

    def close(self) -> None:
        """Write the queue; call this before closing the store. A failure of the store is logged."""
        self.hurry()
        self.flush()
        self._lose()
        self._sign()
        if self._telemetry is not None:
            self._telemetry.close()

    def send_telemetry(self, telemetry: Telemetry, *, names_callers: bool) -> None:
        """Send spans and metrics of all calls from now on. `names_callers` puts the id of the caller into spans."""
        self._telemetry = telemetry
        self.counters.observe = telemetry.count
        self.tracing = Tracing(telemetry.provider, names_callers=names_callers)

    def numbers(self) -> dict[str, float]:
        """Return what this process does now, and what it has lost."""
        return {"calls.running": len(self.running), "records.waiting": self.waiting, "records.dropped": self.dropped}

    def _lose(self) -> None:
        """Count what waits as lost, because the process ends while the store is away."""
        with self._writing:
            if self.waiting and self._is_away:
                log.warning("the records of %d calls are lost: the store is away while this hub ends", self.waiting)
                self.failed += self.waiting
                self._queue.clear()
                self._counted.clear()
                self._unaudited = None

    def _drop(self, run: CallRecording) -> None:
        with self._lock:
            self.dropped += 1
        if self.audit is not None:
            self.audit.drop(1, QUEUE_FULL)
        self.counters.count(run)

    def _wake(self) -> None:
        with self._lock:
            if self._awake:
                return
            self._awake = True
        try:
            # Not a daemon thread: the interpreter waits for it, so that the last records are not lost.
            threading.Thread(target=self._run, name="activity", daemon=False).start()
        except RuntimeError:  # no more threads, or the interpreter exits: the next call tries again
            self._awake = False

    def _run(self) -> None:
        """Write records, in the writer's thread, until no calls come."""
        idle = 0
        while True:
            if threading.main_thread().is_alive():
                self._full.wait(self._every)
                self._full.clear()
            idle = 0 if self.waiting else idle + 1
            try:
                self.flush()
            except Exception:
                log.exception("the records of some calls could not be written; they are lost")
            if idle >= MAX_EMPTY_POLLS or not threading.main_thread().is_alive():
                if not threading.main_thread().is_alive():
                    self._lose()
                self._sign()
                self._awake = False
                # Another thread may have queued a call just before, while this one still seemed awake.
                if not self.waiting or not self._stays():
                    return

    def _stays(self) -> bool:
        """Whether this thread continues as the writer; False if another writer was started."""
        with self._lock:
            if self._awake:
                return False
            self._awake = True
            return True

    def _summarize(self, written: int) -> None:
        """Extend the index of records when this process may have completed a range."""
        self._unsummarized += written
        if self._unsummarized >= RANGE_RECORDS and not extend_index(self._store.journal, self._keep, self._written):
            self._unsummarized = 0

    def _write_batch(self) -> None:
        """Append at most one batch of counted calls to the journal; the caller holds the writing lock."""
        if self._unaudited is None:
            runs = [self._counted.popleft() for _ in range(min(BATCH, len(self._counted)))]
            entry: int | None = None
            rows: list[list[Any]] = []
            try:
                rows = make_rows(runs, self._contents) if self._keep else []
                entry = self._write_records(rows) if rows else None
            except StoreAway:
                self._counted.extendleft(reversed(runs))
                raise
            except BaseException:  # a fault in making the records: the audit chain has the calls nevertheless
                self._unaudited = runs, entry, rows
                self._finish_audit()
                raise
            self._unaudited = runs, entry, rows
        self._finish_audit()

    def _finish_audit(self) -> None:
        """Write the audit rows of the calls whose records are written. Raises StoreAway; then they wait."""
        if self._unaudited is not None:
            self._write_audit(*self._unaudited)
            self._unaudited = None

    def _find_entry(self, data: bytes) -> int | None:
        """Return the seq of the entry with these bytes, if an earlier write stored it and only its answer was lost."""
        found = self._store.journal.tail(ACTIVITY, MAX_ENTRIES_SEARCHED)
        return next((entry.seq for entry in found if entry.data == data), None)

    def _write_records(self, rows: list[list[Any]]) -> int | None:
        """Append the records of calls to the journal; return the seq of their entry, None after a failure.

        Raises StoreAway.
        """
        entry = None
        try:
            data = encode_rows(rows)
            entry = self._find_entry(data) if self._is_away else None
            if entry is None:
                entry = self._store.journal.append(ACTIVITY, data, self._keep)
            self._written[entry] = summarize_rows(rows)
            if len(self._written) > MAX_KNOWN_ENTRIES:
                del self._written[next(iter(self._written))]
            if time.monotonic() - self._trimmed > TRIM:
                self._trimmed = time.monotonic()
                self._store.journal.trim(ACTIVITY, self._most)
                self._store.journal.trim(ACTIVITY_INDEX, self._most // INDEX_SHARE)
            self._store.bus.publish(ACTIVITY)
            self._summarize(len(rows))
        except PatchbayError as problem:
            if isinstance(problem, StoreAway) and entry is None:
                raise
            self.failed += len(rows) if entry is None else 0
            log.warning("the records of %d calls could not be written: %s", len(rows), problem)
        return entry

    def _write_audit(self, runs: list[CallRecording], entry: int | None, rows: list[list[Any]]) -> None:
        """Append the rows of calls to the audit chain; `entry` is the seq of the entry with their records
        `rows`.
        """
        if self.audit is not None:
            try:
                self.audit.append(runs, self._contents, entry, rows)
            except StoreAway:
                raise
            except PatchbayError as problem:
                log.warning("the audit rows of %d calls could not be written: %s", len(runs), problem)

    def _sign(self) -> None:
        """Sign the head of the audit chain, if it has rows since the last signature."""
        if self.audit is not None:
            try:
                self.audit.sign()
            except PatchbayError as problem:
                log.warning("the head of the audit chain could not be signed: %s", problem)
