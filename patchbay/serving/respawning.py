"""Replaces workers that end unexpectedly, with a growing pause.

The web server stops completely when a worker ends soon after its start, so a tool or a system that kills workers would
stop the hub. Here the supervisor continues: the first replacement starts at once, each further one within
`QUIET_SECONDS` waits twice as long, up to `LONGEST_PAUSE_SECONDS`. A worker that hangs is ended (`heartbeats.py`).
After `MAX_SHORT_LIVES` workers in a row that ended at once, a further one would too: the hub stops with exit code 1. A
hub that cannot start logs the reason and exits.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from multiprocessing.synchronize import Semaphore
from typing import Any

from granian.server.mp import MPServer

from patchbay.serving.heartbeats import Heartbeats, end_hung_workers
from patchbay.serving.signal_event import SignalEvent

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 8.0
LOOK_SECONDS = 0.1
"""Time between two checks whether the hub is to stop."""

START_SECONDS = 60.0
"""How long an old worker stays at most while its replacement starts."""

QUIET_SECONDS = 60.0
"""Time without an ended worker after which the next replacement starts at once again."""


SHORT_LIFE_SECONDS = 5.0
"""A worker that ends within this time after its start has ended at once."""

MAX_SHORT_LIVES = 10
"""Workers in a row that may end at once."""


class ShortLives:
    """Counts workers in a row that ended at once."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, seconds: float) -> bool:
        """Count a worker that lived for so long; return whether too many in a row ended at once."""
        self._count = self._count + 1 if seconds <= SHORT_LIFE_SECONDS else 0
        return self._count >= MAX_SHORT_LIVES


class Backoff:
    """The pause before the next replacement."""

    def __init__(self) -> None:
        self._ended = 0
        self._last = float("-inf")

    def pause(self, now: float) -> float:
        """Return the seconds to wait before replacing a worker that ended at `now`, on the monotonic clock."""
        if now - self._last > QUIET_SECONDS:
            self._ended = 0
        self._last = now
        self._ended += 1
        if self._ended == 1:
            return 0.0
        return float(min(FIRST_PAUSE_SECONDS * 2 ** min(self._ended - 2, 16), LONGEST_PAUSE_SECONDS))


class Supervisor(MPServer):
    """The web server with a growing pause between replacements; each worker has `python_threads` threads.

    Each worker releases `started` once it serves. On SIGHUP an old worker ends only after that. The loader of each
    worker gets the argument `place`, where it writes its `heartbeats`.
    """

    def __init__(
        self, *arguments: Any, python_threads: int, started: Semaphore, heartbeats: Heartbeats, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.main_loop_interrupt: Any = SignalEvent()  # the web server's handlers of signals set it
        self._started = started
        self._heartbeats = heartbeats
        self._backoff = Backoff()
        self._short_lives = ShortLives()
        self._python_threads = python_threads

    def _serve(self, spawn_target: Any, target_loader: Any) -> None:
        # The web server refuses more than one thread here, because its own workers of this interface need no more.
        self.blocking_threads = self._python_threads
        watch = (self._heartbeats, lambda: self.interrupt_signal, self._list_processes)
        threading.Thread(target=end_hung_workers, args=watch, name="hung workers", daemon=True).start()
        super()._serve(spawn_target, target_loader)  # type: ignore[no-untyped-call]

    def _spawn_worker(self, idx: int, target: Any, callback_loader: Any) -> Any:  # type: ignore[override]
        place = self._heartbeats.take_place()
        worker: Any = super()._spawn_worker(idx, target, partial(callback_loader, place=place))
        worker.place = place
        return worker

    def _list_processes(self) -> set[int]:
        """Return the workers that run."""
        workers: list[Any] = list(self.wrks)
        return {worker._id() for worker in workers if worker.is_alive()}

    def _respawn_workers(self, workers: Any, spawn_target: Any, target_loader: Any, delay: float = 0) -> None:
        """Replace workers, after a pause if others ended recently. If the hub is to stop, replace none."""
        if not delay:
            self._forget(workers)
        if not delay and self._is_hopeless(workers):
            return
        until = time.monotonic() + self._backoff.pause(time.monotonic())
        while (left := until - time.monotonic()) > 0:
            if self.interrupt_signal:
                return
            time.sleep(min(left, LOOK_SECONDS))
        if delay:
            for worker in workers:
                self._replace(worker, spawn_target, target_loader)
        else:
            super()._respawn_workers(workers, spawn_target, target_loader)
        self.respawned_wrks.clear()  # the web server finds a crash loop by these entries, and would stop the hub

    def _forget(self, ended: list[int]) -> None:
        """Expect no heartbeats of workers that have ended."""
        workers: list[Any] = self.wrks
        for number in ended:
            self._heartbeats.clear(workers[number].place)

    def _is_hopeless(self, ended: list[int]) -> bool:
        """Whether too many workers in a row ended at once. Then the hub stops with exit code 1."""
        now = time.monotonic()
        counted = [self._short_lives.add(now - self.wrks[place].birth) for place in ended]
        if not any(counted):
            return False
        log.error(
            "%d workers in a row ended within %g seconds after their start: the hub stops, because another start does"
            " not help. The lines above say why they ended; `patchbay doctor` checks the machine",
            MAX_SHORT_LIVES,
            SHORT_LIFE_SECONDS,
        )
        self.interrupt_children += ended  # the web server ends with 1 when workers are missing at its end
        self.interrupt_signal = True
        self.main_loop_interrupt.set()
        return True

    def _replace(self, place: int, spawn_target: Any, target_loader: Any) -> None:
        """Start a worker, and end the one that it replaces once it serves."""
        while self._started.acquire(block=False):
            continue
        old: Any = self.wrks.pop(place)
        new: Any = self._spawn_worker(place, spawn_target, target_loader)
        new.start()
        self.wrks.insert(place, new)
        until = time.monotonic() + START_SECONDS
        while not self._started.acquire(timeout=LOOK_SECONDS):
            if self.interrupt_signal or not new.is_alive() or time.monotonic() > until:
                break
        old.terminate()
        old.join(self.workers_kill_timeout)
        if old.is_alive():
            old.kill()
            old.join()
        self._heartbeats.clear(old.place)
