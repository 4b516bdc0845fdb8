"""The pool of workers: a call gets a worker that knows its definition, else a new one, up to a limit.

A worker belongs permanently to one definition of one server. It ends after many calls, when a call left something
behind, or after an idle time. Spare workers without a definition stand by, so that no call waits for a fork. One server
may use three quarters of all workers. The pool belongs to one app in one process. Its lock is never held across a call.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

from patchbay.activation import PAUSE, Call, pauses
from patchbay.errors import ServerFailed, ToolFailed
from patchbay.events import Event
from patchbay.kinds.python.workers import frames
from patchbay.kinds.python.workers.fork_server_client import ForkServerClient
from patchbay.kinds.python.workers.waiting_calls import Pace, WaitingCall, WaitingCalls
from patchbay.kinds.python.workers.worker_connection import WorkerConnection, WorkerGone
from patchbay.kinds.python.workers.worker_counts import ENDINGS, WorkerCounts
from patchbay.kinds.python.workers.worker_order import WorkerOrder
from patchbay.processes import sandbox

log = logging.getLogger(__name__)

MAX_WORKERS = 64
SPARE_WORKERS = 2
MAX_CALLS = 5000
"""Calls after which a worker is replaced."""

IDLE_SECONDS = 60.0
"""Seconds after which an idle worker ends."""

HOUSEKEEPING_SECONDS = 1.0
"""Seconds between two rounds of housekeeping."""

LONGEST_SILENCE = 10.0
"""Limit on the seconds until a fork server answers a ping."""


class WorkerPool:
    """The workers of one hub process. `most` limits those that run or wait for a call.

    `hidden` are the folders that no tool may read, `kept` those that no tool may change; `protections` are the features
    that enforce this (`processes/confinement/`).
    """

    def __init__(
        self,
        most: int = MAX_WORKERS,
        hidden: Sequence[Path] = (),
        calls: int = MAX_CALLS,
        idle: float = IDLE_SECONDS,
        protections: Sequence[str] = (),
        kept: Sequence[Path] = (),
    ) -> None:
        self._most = max(1, most)
        self._share = max(1, self._most * 3 // 4)
        self.hidden = hidden
        self.wanted = protections
        self.kept = kept
        self._calls = calls
        self._patience = idle
        self._free = threading.Lock()
        self._queue = WaitingCalls()
        self._pace = Pace()
        self._idle: dict[str, list[WorkerConnection]] = {}
        self._known: WeakSet[WorkerConnection] = WeakSet()
        self._live: Counter[str] = Counter()
        self._ending: list[WorkerConnection] = []
        self._spares: list[WorkerConnection] = []
        self._fork_servers: dict[str, ForkServerClient] = {}
        self._started = 0
        self._ended: Counter[str] = Counter()
        self._closed = threading.Event()
        self._keeper: threading.Thread | None = None

    def take_idle(self, order: WorkerOrder) -> WorkerConnection | None:
        """Return an idle worker that knows the definition, if there is one."""
        with self._free:
            idle = self._idle.get(order.key)
            if not idle or self._is_crowded(order, len(idle)):
                return None
            return idle.pop()

    def wait_for_worker(self, order: WorkerOrder, call: Call) -> Generator[Event, Any, WorkerConnection]:
        """Return a worker for a call; waits while all are busy.

        Raises ToolFailed when all are busy until the deadline, ConfigError for a missing variable of its environment.
        """
        with self._free:
            worker = self._claim(order)
            if worker is not None:
                return worker
            waiting = self._queue.add(order)
        worker = None
        try:
            for seconds in pauses(call):
                worker = self._wait(waiting, seconds)
                if worker is not None:
                    return worker
                if call.left() <= 0:
                    break
                yield PAUSE
            words = "is busy: all its processes run other calls; try again later"
            raise ServerFailed(f"{order.name} {words}", hidden=f"the server behind it {words}")
        finally:
            if worker is None or worker is not waiting.worker:
                self._leave(waiting)

    def _leave(self, waiting: WaitingCall) -> None:
        """Take a call out of the queue; a worker that it was given meanwhile goes to another call."""
        with self._free:
            self._queue.remove(waiting)
        if waiting.worker is not None:
            self.give_back(waiting.worker)

    def _wait(self, waiting: WaitingCall, seconds: float) -> WorkerConnection | None:
        """Return the worker that a waiting call gets within so many seconds, or None."""
        until = time.monotonic() + seconds
        while True:
            waiting.wait(until, workers_end=bool(self._ending))
            if waiting.worker is not None:
                return waiting.worker
            with self._free:
                worker = waiting.assigned_worker() or self._claim(waiting.order)
            if worker is not None or time.monotonic() >= until:
                return worker

    def give_back(self, worker: WorkerConnection) -> None:
        """Return a worker that has finished its call; it is used again, unless it is spent."""
        worker.calls += 1
        now = worker.since = time.monotonic()
        with self._free:
            self._pace.note(worker.order.name, worker.seconds, now)
            usable = not (worker.spent or worker.calls >= self._calls or self._closed.is_set())
            given = self._queue.give(worker) if usable and self._queue else None
            if usable and given is None:
                self._idle.setdefault(worker.order.key, []).append(worker)
                self._queue.wake_all()
        if given is not None:
            given.wake()
        if not usable:
            self.stop(worker, "spent")

    def stop(self, worker: WorkerConnection, why: str = "lost") -> None:
        """End a worker, with everything it started. `why` is one of ENDINGS."""
        worker.end()
        with self._free:
            self._ended[why] += 1
            self._count_out(worker)
            if worker.slow and not self._idle.get(worker.order.key):
                self._warm(worker.order)
            self._queue.wake_all()

    def restart(self, name: str) -> None:
        """End the workers of a server: the idle ones now, the others after their calls."""
        with self._free:
            for worker in [one for one in self._known if one.order.name == name]:
                worker.spent = True
                if worker in self._idle.get(worker.order.key, ()):
                    self._dismiss(worker)

    def close(self) -> None:
        """End all workers and wait for their end; running calls fail."""
        self._closed.set()
        if self._keeper is not None:
            self._keeper.join()
        with self._free:
            fork_servers, self._fork_servers = list(self._fork_servers.values()), {}
            workers = [*self._spares, *(worker for idle in self._idle.values() for worker in idle)]
            self._spares.clear()
            self._idle.clear()
        for fork_server in fork_servers:
            fork_server.close()
        for worker in workers:
            worker.disconnect()
            worker.close()
        with self._free:
            self._reap()

    def counts(self) -> WorkerCounts:
        """Return how many workers there are of each kind, and how the others ended."""
        with self._free:
            idle = sum(map(len, self._idle.values()))
            now = {
                "busy": self._live.total() - idle,
                "idle": idle,
                "blank": len(self._spares),
                "ending": len(self._ending),
            }
            return WorkerCounts(self._most, now, self._started, {why: self._ended[why] for why in ENDINGS})

    def protections(self, seconds: float = 5.0) -> dict[str, Any]:
        """Return the protections of the workers (`ForkServerClient.protections`); starts the fork server if necessary.

        Raises ToolFailed when that is impossible.
        """
        with self._free:
            fork_server = None if self._closed.is_set() else self._fork_server_for("", ())
        return fork_server.protections(seconds) if fork_server is not None else {}

    @property
    def pids(self) -> list[int]:
        """The process ids of the fork servers; workers are their children."""
        return [fork_server.pid for fork_server in self._fork_servers.values()]

    def _claim(self, order: WorkerOrder) -> WorkerConnection | None:
        """Return an idle worker, a new one, or None at the limit. The caller holds the lock. Raises ToolFailed."""
        idle = self._idle.get(order.key, ())
        if self._is_crowded(order, len(idle)):
            return None
        return idle.pop() if idle else self._add(order)

    def _is_crowded(self, order: WorkerOrder, idle: int) -> bool:
        return self._pace.is_crowded(order.name, self._live[order.name] - idle)

    def _add(self, order: WorkerOrder) -> WorkerConnection | None:
        """Return a new worker, or None at the limit. The caller holds the lock. Raises ToolFailed."""
        self._reap()
        if self._live[order.name] >= self._share:
            self._dismiss_oldest(order.name)
        elif self._total() >= self._most:
            self._dismiss_oldest()
        return self._new(order) if self._has_room(order) else None

    def _has_room(self, order: WorkerOrder) -> bool:
        return self._live[order.name] < self._share and self._total() < self._most

    def _total(self) -> int:
        return self._live.total() + len(self._ending)

    def _new(self, order: WorkerOrder, further: bytes = b"") -> WorkerConnection:
        if self._closed.is_set():
            raise ToolFailed("the hub is ending")
        known = order.frame() + further
        worker = self._blank(order)
        worker.order = order
        self._known.add(worker)
        self._live[order.name] += 1
        try:
            worker.backlog = worker.write(known)
        except WorkerGone as problem:
            worker.disconnect()
            story = worker.describe_end(0.1)
            self._count_out(worker)
            raise ToolFailed(story) from problem
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, name="workers", daemon=True)
            self._keeper.start()
        return worker

    def _blank(self, order: WorkerOrder) -> WorkerConnection:
        """Return a worker without a definition: one that stands by, and order another in its place."""
        if order.limits.sandbox:
            shown = [order.packages.folder] if order.packages is not None else []
            return self._spawn(order.key, sandbox.sandbox_command(self.hidden, shown=shown))
        spares, self._spares = self._spares, []
        for worker in spares:
            if worker.has_ended():
                worker.disconnect()
                worker.close()
            else:
                self._spares.append(worker)
        while len(self._spares) <= SPARE_WORKERS:
            self._spares.append(self._spawn(""))
        return self._spares.pop(0)

    def _spawn(self, which: str, walls: Sequence[str] = ()) -> WorkerConnection:
        self._started += 1
        return self._fork_server_for(which, walls).spawn()

    def _fork_server_for(self, which: str, walls: Sequence[str]) -> ForkServerClient:
        fork_server = self._fork_servers.get(which)
        if fork_server is None or not fork_server.alive():
            if fork_server is not None:
                log.warning("the fork server has ended; another one is started")
                fork_server.close()
            # The sandbox has its own namespaces, a read-only file system, and no data of the hub.
            fork_server = self._fork_servers[which] = ForkServerClient(
                walls, () if walls else self.wanted, self.hidden, self.kept
            )
        return fork_server

    def _warm(self, order: WorkerOrder) -> None:
        """Start a worker for a slowly loading definition, in place of one that has just ended."""
        if self._closed.is_set() or not self._has_room(order):
            return
        try:
            worker = self._new(order, frames.frame(frames.WARM))
        except ToolFailed as problem:
            log.warning("no worker could load in advance for %s: %s", order.name, problem)
            return
        worker.slow = True
        worker.since = time.monotonic()
        self._idle.setdefault(order.key, []).append(worker)

    def _count_out(self, worker: WorkerConnection) -> None:
        if worker.order is not None:
            self._live[worker.order.name] -= 1
        if self._closed.is_set():
            worker.close()
        else:
            self._ending.append(worker)

    def _reap(self) -> None:
        """Drop the workers that have ended completely."""
        for worker in self._ending:
            if worker.has_ended():
                worker.close()
        self._ending = [worker for worker in self._ending if not worker.closed]

    def _dismiss_oldest(self, name: str | None = None) -> None:
        """End the worker that has been idle for the longest time, of one server or of all."""
        idle = [worker for workers in self._idle.values() for worker in workers if name in (None, worker.order.name)]
        if idle:
            self._dismiss(min(idle, key=lambda worker: worker.since))

    def _dismiss(self, worker: WorkerConnection) -> None:
        """End an idle worker."""
        self._ended["idle"] += 1
        idle = self._idle[worker.order.key]
        idle.remove(worker)
        if not idle:
            del self._idle[worker.order.key]
        worker.end()
        self._count_out(worker)

    def _keep(self) -> None:
        while not self._closed.wait(HOUSEKEEPING_SECONDS):
            with self._free:
                silent = [one for one in self._fork_servers.items() if one[1].silent_seconds() > LONGEST_SILENCE]
                for which, _ in silent:
                    del self._fork_servers[which]
                self._tidy()
            for _, fork_server in silent:
                log.warning("the process that holds the workers does not answer; another one is started")
                fork_server.kill()

    def _tidy(self) -> None:
        """Run one round of housekeeping: end workers that have been idle for long, and empty sandboxes."""
        oldest = time.monotonic() - self._patience
        for worker in [worker for workers in self._idle.values() for worker in workers]:
            if worker.since < oldest or worker.has_ended():
                self._dismiss(worker)
        self._reap()
        names = +self._live
        self._pace.forget_all_but(names)
        for which in [one for one in self._fork_servers if one and one.partition(" ")[0] not in names]:
            self._fork_servers.pop(which).close()
