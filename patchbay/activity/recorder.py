"""Activity: every call leaves one record, kept by a writer in the background.

What answers a call tells a Run (`runs.py`) what it sees, and how it ended. A Run that has ended is put into a queue
without any lock; a thread takes it from there, counts it (`tally.py`) and appends records to the journal, many
at a time. Nothing here waits for the disk, and nothing that fails here fails a call.

Policies: the queue holds `MAX_QUEUED_RECORDS` runs. When it is full, a newer one is dropped: counted, but without a
record.
Arguments and results are looked at only up to `KEPT` bytes each, and only while the writer keeps up (`AHEAD`).
The thread ends when nothing has come for a while, and the interpreter does not end before it has written what is there.
Sources: DESIGN section 10 (no lock shared by all on the hot path) and 11 (secrets); THREATS 1.6.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from patchbay.activity.call_counters import CallCounters
from patchbay.activity.call_recording import CallRecording
from patchbay.activity.records import (
    Filter,
    Page,
    Record,
    encoded,
    find,
    recent,
    row_of,
)
from patchbay.activity.retention import KEPT, contents_mode, estimate_size, packed
from patchbay.activity.tracing import Tracing
from patchbay.catalogue.servers import Server
from patchbay.errors import PatchbayError
from patchbay.jsonrpc import Id, Rendered
from patchbay.protocol.callers import LegacySession, TransportInfo
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.topics import ACTIVITY

log = logging.getLogger(__name__)

MAX_QUEUED_RECORDS = 10_000
"""Runs in the queue."""

AHEAD = 1_000
"""Runs in the queue from which on arguments and results are no longer looked at."""

BATCH = 500
"""Records in one entry of the journal."""

EVERY, SOON = 0.5, 0.05
"""Seconds between two looks at the queue; the same when the hub is ending."""

MAX_EMPTY_POLLS = 4
"""Looks at an empty queue after which the thread ends."""

TRIM = 60.0
"""Seconds between two looks at how much the records take."""

DAY = 24 * 3600.0
NOTHING: Mapping[str, Any] = {}


class Activity:
    """The records of one process, and the sight of everybody's in the same store. Safe to use from many threads.

    `running` are the calls being answered here, `tally` what has been counted, `dropped` how many records were lost
    because the queue was full, `failed` how many because the store failed. `tracing` begins their spans. `every` is how
    many seconds the writer lets pass between two looks.
    """

    def __init__(self, store: Store, settings: Settings, tracing: Tracing | None = None, every: float = EVERY) -> None:
        self.running: set[CallRecording] = set()
        self.tally = CallCounters()
        self.dropped = 0
        self.failed = 0
        self._store = store
        self.tracing = tracing or Tracing()
        self._contents = contents_mode(settings)
        self._keep = settings.activity_days * DAY
        self._looks = self._keep > 0 and self._contents != "none"
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
        """A call has come in. `name` is what it names: a tool, a prompt, a URI; `meta` the request's `_meta`."""
        run = CallRecording(self, method, name, server, wire)
        run.revision = revision
        if session is not None:
            run.session = session
        if meta:
            run.client = meta.get("io.modelcontextprotocol/clientInfo")
        if self._looks and len(self._queue) < AHEAD:
            run.arguments = packed(arguments or NOTHING)
        if meta or self.tracing.active(run.begun):
            run.trace = self.tracing.begin(run, meta or NOTHING, id)
        return run

    def look(self, run: CallRecording, answer: Mapping[str, Any] | Rendered) -> None:
        """Take down how large an answer is and, where that is wanted and it is small, the answer itself."""
        if isinstance(answer, Rendered):
            run.size = len(answer.data)
            return
        run.size = estimate_size(answer)
        if self._looks and run.size <= KEPT and len(self._queue) < AHEAD:
            run.answer = packed(answer)
            if run.answer is not None:
                run.size = len(run.answer)

    def take(self, run: CallRecording) -> None:
        """A run has ended: into the queue with it."""
        waiting = len(self._queue) + len(self._counted)
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
        """Runs that are not written yet."""
        return len(self._queue) + len(self._counted)

    def recent(self, wanted: Filter, limit: int = 100, before: str | None = None, contents: bool = True) -> Page:
        """Records of all processes, newest first; without `contents` those are left out, which is quicker.

        Raises InvalidParams for a `before` that is no record's id.
        """
        self.flush()
        return recent(self._store.journal, wanted, limit, before, contents)

    def find(self, id: str) -> Record | None:
        """One record by its id; None when there is none (any more)."""
        self.flush()
        return find(self._store.journal, id)

    def count(self) -> None:
        """Count what is in the queue now; does not touch the store, which may be slow just then."""
        with self._counting:
            runs = [self._queue.popleft() for _ in range(len(self._queue))]
            self.tally.count(*runs)
            self._counted.extend(runs)

    def flush(self) -> None:
        """Write down what is in the queue now."""
        with self._writing:
            self.count()
            while self._counted:
                self._write_batch()

    def hurry(self) -> None:
        """The hub is ending: what comes now is written down at once."""
        self._every = SOON
        self._full.set()

    def close(self) -> None:
        """Write down what is there; to be called before the store is closed. A store that fails is logged."""
        self.hurry()
        self.flush()

    def _drop(self, run: CallRecording) -> None:
        with self._lock:
            self.dropped += 1
        self.tally.count(run)

    def _wake(self) -> None:
        with self._lock:
            if self._awake:
                return
            self._awake = True
        try:
            # No daemon: the interpreter waits for it, so that the last records are not lost.
            threading.Thread(target=self._run, name="activity", daemon=False).start()
        except RuntimeError:  # no more threads, or the interpreter is ending: whoever comes next tries again
            self._awake = False

    def _run(self) -> None:
        """In the writer's thread: until nothing comes any more."""
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
                self._awake = False
                # Somebody may have put a run there and seen the thread awake just before.
                if not self.waiting or not self._stays():
                    return

    def _stays(self) -> bool:
        """Whether this thread goes on as the writer; not when another was started meanwhile."""
        with self._lock:
            if self._awake:
                return False
            self._awake = True
            return True

    def _write_batch(self) -> None:
        """With the writing lock: append what has been counted to the journal, at most a batch of it."""
        runs = [self._counted.popleft() for _ in range(min(BATCH, len(self._counted)))]
        if not self._keep:
            return
        try:
            self._store.journal.append(ACTIVITY, encoded([row_of(run, self._contents) for run in runs]), self._keep)
            if time.monotonic() - self._trimmed > TRIM:
                self._trimmed = time.monotonic()
                self._store.journal.trim(ACTIVITY, self._most)
            self._store.bus.publish(ACTIVITY)
        except PatchbayError as problem:
            self.failed += len(runs)
            log.warning("the records of %d calls could not be written: %s", len(runs), problem.message)
