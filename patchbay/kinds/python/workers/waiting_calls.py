"""Calls that wait for a worker, in the order in which they came, up to a bound; a worker that is free goes to one call.

A definition whose calls are quick gets no more workers at a time than the machine can run: more would only slow each
other down. It gets them after all when no worker of it has become free for `STALL_SECONDS`.
The queue belongs to one pool, whose lock guards it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection
from typing import Any

from patchbay.errors import ServerFailed
from patchbay.kinds.python.workers.worker_connection import WorkerConnection

MAX_WAITING_CALLS = 2048
"""Calls that wait at a time."""

STALL_SECONDS = 0.05
"""Seconds without a worker that becomes free, after which a quick definition may have more of them."""

ENDING_POLL_SECONDS = 0.02
"""Seconds between two checks of a waiting call for a worker that has ended, when it needs the place of one."""

QUICK_SECONDS = 0.005
"""Seconds that the calls of a quick definition run in a worker, on average."""

FAIR_SECONDS = 1.0
"""Seconds that the first call in the queue waits while workers go to later calls of their own definition."""

MAX_QUICK_WORKERS = 8 * (os.cpu_count() or 1)
"""Workers that a quick definition has at a time. With fewer, calls wait in the queue, which costs the hub more."""

_WEIGHT = 0.125
"""How much the latest call counts in the average."""


class WaitingCall:
    """One call in the queue. `worker` is what it was given; then it is no longer in the queue."""

    __slots__ = ("_woken", "order", "since", "worker")

    def __init__(self, order: Any) -> None:
        self.order = order
        self.since = time.monotonic()
        self.worker: WorkerConnection | None = None
        self._woken = threading.Lock()
        self._woken.acquire()

    def assigned_worker(self) -> WorkerConnection | None:
        """The worker that it was given by now."""
        return self.worker

    def wait(self, until: float, workers_end: bool = False) -> None:
        """Wait until it is woken, at most until a `time.monotonic()` moment.

        It returns earlier once its definition may count as stalled, and to check again whether a worker has ended.
        """
        now = time.monotonic()
        stalled = self.since + STALL_SECONDS
        if workers_end:
            until = min(until, now + ENDING_POLL_SECONDS)
        elif stalled > now:
            until = min(until, stalled)
        self._woken.acquire(timeout=max(0.0, until - now))

    def wake(self) -> None:
        """Make it check again; several calls before it does have the effect of one."""
        if self._woken.locked():
            self._woken.release()


class WaitingCalls:
    """The queue of a pool. All of it is called with the pool's lock."""

    def __init__(self) -> None:
        self._calls: dict[WaitingCall, None] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, order: Any) -> WaitingCall:
        """A new last call. Raises ToolFailed when there are too many."""
        if len(self._calls) >= MAX_WAITING_CALLS:
            words = f"is busy: {MAX_WAITING_CALLS} calls wait for a process; try again later"
            raise ServerFailed(f"{order.name} {words}", hidden=f"the server behind it {words}")
        call = WaitingCall(order)
        self._calls[call] = None
        return call

    def remove(self, call: WaitingCall) -> None:
        """Take a call out, if it is still there."""
        self._calls.pop(call, None)

    def give(self, worker: WorkerConnection) -> WaitingCall | None:
        """Give a free worker to the first call of its definition, which is to be woken then.

        None when the worker has to stay idle: no call waits for it, or the first call of all is one of another
        definition and has waited for `FAIR_SECONDS`.
        """
        first = next(iter(self._calls), None)
        if first is None:
            return None
        key = worker.order.key
        if first.order.key != key and time.monotonic() - first.since > FAIR_SECONDS:
            return None
        found = next((call for call in self._calls if call.order.key == key), None)
        if found is not None:
            del self._calls[found]
            found.worker = worker
        return found

    def wake_all(self) -> None:
        """Wake every waiting call to try for a worker: the pool may start another one."""
        for call in self._calls:
            call.wake()


class Pace:
    """How long the calls of each server run in a worker, and when one of its workers became free last."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._freed: dict[str, float] = {}

    def note(self, name: str, seconds: float | None, now: float) -> None:
        """A worker of a server has become free. Its call ran so many seconds, where it worked."""
        self._freed[name] = now
        if seconds is None:
            return
        before = self._seconds.get(name, seconds)
        self._seconds[name] = before + _WEIGHT * (seconds - before)

    def is_crowded(self, name: str, busy: int) -> bool:
        """Whether a server that has so many busy workers should wait for one of them."""
        if busy < MAX_QUICK_WORKERS or self._seconds.get(name, QUICK_SECONDS) >= QUICK_SECONDS:
            return False
        return time.monotonic() - self._freed[name] < STALL_SECONDS

    def forget_all_but(self, names: Collection[str]) -> None:
        """Forget the servers that have no workers."""
        for known in (self._seconds, self._freed):
            for name in [name for name in known if name not in names]:
                del known[name]
