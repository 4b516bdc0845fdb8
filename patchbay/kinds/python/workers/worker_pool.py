"""Which host runs a call: hosts that know its definition first, then new ones, up to a bound.

A host belongs to one definition of one server for good. It ends after many calls, when a call left
something behind, or when nobody needed it for a while. Blank hosts stand by, so that nobody waits
for a fork. One server may take three quarters of all hosts; the rest is for the others.
The pool belongs to one app in one worker process. Its lock is never held across a call.
Sources: DESIGN section 6; THREATS X2, X3.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from patchbay.activation import PAUSE, Call, pauses
from patchbay.errors import ToolFailed
from patchbay.events import Event
from patchbay.kinds.python.workers import frames
from patchbay.kinds.python.workers.fork_server_client import ForkServerClient
from patchbay.kinds.python.workers.waiting_calls import STALL_SECONDS, Pace, WaitingCall, WaitingCalls
from patchbay.kinds.python.workers.worker_connection import WorkerConnection, WorkerGone
from patchbay.processes import sandbox
from patchbay.processes.limits import Limits
from patchbay.settings import resolved

log = logging.getLogger(__name__)

MAX_WORKERS = 64
SPARES = 2
CALLS = 5000
"""Calls after which a host is replaced."""

IDLE_SECONDS = 60.0
"""Seconds after which a host that nobody needs ends."""

ENDING_POLL_SECONDS = 0.02
"""Seconds between two looks of a waiting call at whether a worker has ended whose place it needs."""

ROUND = 1.0
"""Seconds between two rounds of housekeeping."""


ASKS_FOR_FOLDER = b"folder"
"""The word that a definition has to hold to ask for the folder of its server (`context.folder`)."""

LONGEST_SILENCE = 10.0
"""Seconds that a fork server may owe an answer before it is taken for stopped, and replaced."""

ENDINGS = ("spent", "idle", "given up", "lost")
"""Why hosts end: after many calls or when one left something behind; when nobody needed them; with a call that was
cancelled or took too long; by themselves, in the middle of a call or between two."""


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """The hosts of a pool: how many there may be, how many are `busy`, `idle`, `blank` and `ending` now, and how many
    were started and have ended since the pool began, the latter by reason (ENDINGS)."""

    most: int
    now: Mapping[str, int]
    started: int
    ended: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """What a host is to know: a definition, for one server, within limits, with variables for its environment.

    `own` is the folder of the server, which its code may change.
    """

    name: str
    cid: str
    source: bytes
    limits: Limits
    environment: Mapping[str, str] = field(default_factory=dict)
    own: Path | None = None
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.name} {self.cid} {self.limits} {dict(self.environment)}")

    def frame(self) -> bytes:
        """How a host gets it. Raises ConfigError for a variable that the hub does not have."""
        variables = resolved(self.environment, self.name)
        own = []
        if self.own is not None:
            if ASKS_FOR_FOLDER in self.source:  # what is not there when a host is confined cannot be opened to it
                self.own.mkdir(parents=True, exist_ok=True)
            own.append(str(self.own.absolute()))
        head = orjson.dumps([self.name, self.cid, self.limits.memory, variables, own, self.limits.writes])
        return frames.frame(frames.LOAD, head + b"\n" + self.source)


class WorkerPool:
    """The hosts of one hub process. `most` bounds those that run or wait for a call.

    `hidden` are the folders that no tool may read, `kept` those that none may change; `protections` says what is to
    see to it (`confinement/`).
    """

    def __init__(
        self,
        most: int = MAX_WORKERS,
        hidden: Sequence[Path] = (),
        calls: int = CALLS,
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
        self._live: Counter[str] = Counter()
        self._ending: list[WorkerConnection] = []
        self._spares: list[WorkerConnection] = []
        self._zygotes: dict[str, ForkServerClient] = {}
        self._started = 0
        self._ended: Counter[str] = Counter()
        self._closed = threading.Event()
        self._keeper: threading.Thread | None = None

    def at_once(self, order: WorkerOrder) -> WorkerConnection | None:
        """A host that knows the definition and has nothing to do, if there is one."""
        with self._free:
            idle = self._idle.get(order.key)
            if not idle or self._is_crowded(order, len(idle)):
                return None
            return idle.pop()

    def soon(self, order: WorkerOrder, call: Call) -> Generator[Event, Any, WorkerConnection]:
        """A host for a call, waiting while all are busy. Raises ToolFailed when none is free before the deadline.

        Raises ConfigError when it would lack a variable of its environment.
        """
        with self._free:
            host = self._claim(order)
            if host is not None:
                return host
            waiting = self._queue.add(order)
        host = None
        try:
            for seconds in pauses(call):
                host = self._wait(waiting, seconds)
                if host is not None:
                    return host
                if call.left() <= 0:
                    break
                yield PAUSE
            raise ToolFailed(f"{order.name} is busy: all the processes it may have run other calls; try again later")
        finally:
            if host is None or host is not waiting.worker:
                self._leave(waiting)

    def _leave(self, waiting: WaitingCall) -> None:
        """A call waits no more; what it was given meanwhile goes to another."""
        with self._free:
            self._queue.remove(waiting)
        if waiting.worker is not None:
            self.give_back(waiting.worker)

    def _wait(self, waiting: WaitingCall, seconds: float) -> WorkerConnection | None:
        """The host that a waiting call gets within so many seconds, if it gets one."""
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            stalls = waiting.since + STALL_SECONDS - time.monotonic()
            waiting.wait(min(left, ENDING_POLL_SECONDS) if self._ending else min(left, stalls) if stalls > 0 else left)
            if waiting.worker is not None:
                return waiting.worker
            with self._free:
                host = waiting.given() or self._claim(waiting.order)
            if host is not None or time.monotonic() >= until:
                return host

    def give_back(self, host: WorkerConnection) -> None:
        """A host has finished its call and can be used again, unless it is spent."""
        host.calls += 1
        now = host.since = time.monotonic()
        with self._free:
            self._pace.note(host.order.name, host.seconds, now)
            usable = not (host.spent or host.calls >= self._calls or self._closed.is_set())
            given = self._queue.give(host) if usable and self._queue else None
            if usable and given is None:
                self._idle.setdefault(host.order.key, []).append(host)
                self._queue.wake_all()
        if given is not None:
            given.wake()
        if not usable:
            self.stop(host, "spent")

    def stop(self, host: WorkerConnection, why: str = "lost") -> None:
        """Have a host end, with everything it started. `why` is one of ENDINGS."""
        host.end()
        with self._free:
            self._ended[why] += 1
            self._let_go(host)
            if host.slow and not self._idle.get(host.order.key):
                self._warm(host.order)
            self._queue.wake_all()

    def close(self) -> None:
        """End all hosts and wait until they have ended; calls that still run fail."""
        self._closed.set()
        if self._keeper is not None:
            self._keeper.join()
        with self._free:
            zygotes, self._zygotes = list(self._zygotes.values()), {}
            hosts = [*self._spares, *(host for idle in self._idle.values() for host in idle)]
            self._spares.clear()
            self._idle.clear()
        for zygote in zygotes:
            zygote.close()
        for host in hosts:
            host.hang_up()
            host.close()
        with self._free:
            self._reap()

    def counts(self) -> WorkerCounts:
        """How many hosts there are of each kind, and what became of the others."""
        with self._free:
            idle = sum(len(hosts) for hosts in self._idle.values())
            busy = self._live.total() - idle
            now = {"busy": busy, "idle": idle, "blank": len(self._spares), "ending": len(self._ending)}
            return WorkerCounts(self._most, now, self._started, {why: self._ended[why] for why in ENDINGS})

    def protections(self, seconds: float = 5.0) -> dict[str, Any]:
        """The protections of the workers (`ForkServerClient.protections`); starts the fork server if it does not run.

        Raises ToolFailed when that cannot be done.
        """
        with self._free:
            if self._closed.is_set():
                return {}
            zygote = self._zygote("", ())
        return zygote.protections(seconds)

    @property
    def pids(self) -> list[int]:
        """The zygotes' process ids; hosts are their children."""
        return [zygote.pid for zygote in self._zygotes.values()]

    def _claim(self, order: WorkerOrder) -> WorkerConnection | None:
        """With the lock: an idle host, a new one, or None when there have to be fewer first. Raises ToolFailed."""
        idle = self._idle.get(order.key, ())
        if self._is_crowded(order, len(idle)):
            return None
        return idle.pop() if idle else self._added(order)

    def _is_crowded(self, order: WorkerOrder, idle: int) -> bool:
        return self._pace.is_crowded(order.name, self._live[order.name] - idle)

    def _added(self, order: WorkerOrder) -> WorkerConnection | None:
        """With the lock: a new host, or None when there have to be fewer first. Raises ToolFailed."""
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
        host = self._blank(order)
        host.order = order
        self._live[order.name] += 1
        try:
            host.backlog = host.write(known)
        except WorkerGone as problem:
            host.hang_up()
            story = host.story(0.1)
            self._let_go(host)
            raise ToolFailed(story) from problem
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, name="hosts", daemon=True)
            self._keeper.start()
        return host

    def _blank(self, order: WorkerOrder) -> WorkerConnection:
        """A host that knows nothing yet: one that stands by, and another in its place."""
        if order.limits.sandbox:
            return self._spawn(order.key, sandbox.walls(self.hidden))
        spares, self._spares = self._spares, []
        for host in spares:
            if host.ended():
                host.hang_up()
                host.close()
            else:
                self._spares.append(host)
        while len(self._spares) <= SPARES:
            self._spares.append(self._spawn(""))
        return self._spares.pop(0)

    def _spawn(self, which: str, walls: Sequence[str] = ()) -> WorkerConnection:
        self._started += 1
        return self._zygote(which, walls).spawn()

    def _zygote(self, which: str, walls: Sequence[str]) -> ForkServerClient:
        zygote = self._zygotes.get(which)
        if zygote is None or not zygote.alive():
            if zygote is not None:
                log.warning("the process that holds the hosts has ended; another one is started")
                zygote.close()
            # The sandbox has namespaces of its own, a read-only file system, and nothing of the hub's data in it.
            zygote = self._zygotes[which] = ForkServerClient(
                walls, () if walls else self.wanted, self.hidden, self.kept
            )
        return zygote

    def _warm(self, order: WorkerOrder) -> None:
        """A new host for a definition that loads slowly, in the place of one that has just ended."""
        if self._closed.is_set() or not self._has_room(order):
            return
        try:
            host = self._new(order, frames.frame(frames.WARM))
        except ToolFailed as problem:
            log.warning("no host could be warmed for %s: %s", order.name, problem)
            return
        host.slow = True
        host.since = time.monotonic()
        self._idle.setdefault(order.key, []).append(host)

    def _let_go(self, host: WorkerConnection) -> None:
        if host.order is not None:
            self._live[host.order.name] -= 1
        if self._closed.is_set():
            host.close()
        else:
            self._ending.append(host)

    def _reap(self) -> None:
        """Forget the hosts of which nothing is left."""
        for host in self._ending:
            if host.ended():
                host.close()
        self._ending = [host for host in self._ending if not host.closed]

    def _dismiss_oldest(self, name: str | None = None) -> None:
        """End the host that has been idle for longest, of one server or of all."""
        idle = [host for hosts in self._idle.values() for host in hosts if name in (None, host.order.name)]
        if idle:
            self._dismiss(min(idle, key=lambda host: host.since))

    def _dismiss(self, host: WorkerConnection) -> None:
        """End an idle host."""
        self._ended["idle"] += 1
        idle = self._idle[host.order.key]
        idle.remove(host)
        if not idle:
            del self._idle[host.order.key]
        host.end()
        self._let_go(host)

    def _keep(self) -> None:
        while not self._closed.wait(ROUND):
            with self._free:
                silent = [one for one in self._zygotes.items() if one[1].silence() > LONGEST_SILENCE]
                for which, _ in silent:
                    del self._zygotes[which]
                self._tidy()
            for _, zygote in silent:
                log.warning("the process that holds the hosts does not answer; another one is started")
                zygote.kill()

    def _tidy(self) -> None:
        """One round of housekeeping: what is idle for long or has ended goes, and so do empty sandboxes."""
        oldest = time.monotonic() - self._patience
        for host in [host for hosts in self._idle.values() for host in hosts]:
            if host.since < oldest or host.ended():
                self._dismiss(host)
        self._reap()
        names = +self._live
        self._pace.forget_all_but(names)
        for which in [one for one in self._zygotes if one and one.partition(" ")[0] not in names]:
            self._zygotes.pop(which).close()
