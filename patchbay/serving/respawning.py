"""Replaces workers that end unexpectedly, with a growing pause.

The web server stops completely when a worker ends soon after its start, so a tool or a system that kills workers would
stop the hub. Here the supervisor continues: the first replacement starts at once, each further one within
`QUIET_SECONDS` waits twice as long, up to `LONGEST_PAUSE_SECONDS`. A worker that hangs is ended (`heartbeats.py`).
After `MAX_SHORT_LIVES` workers in a row that ended at once, a further one would too: the hub stops with exit code 1. A
hub that cannot start logs the reason and exits.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Semaphore
from typing import Any

from patchbay.serving.drain import SIGNALS
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


class Worker:
    """One worker process, and its place among the heartbeats."""

    def __init__(self, run: Callable[[int], None], place: int, on_end: Callable[[Worker], None]) -> None:
        self.place = place
        self.is_ended_by_us = self.is_counted = False
        self._process: BaseProcess = _context().Process(target=run, args=(place,), name="patchbay-worker")
        self._process.start()
        self.begun = time.monotonic()
        try:
            threading.Thread(target=self._watch, args=(on_end,), name="worker", daemon=True).start()
        except RuntimeError:  # the system has no more threads: a worker that is not watched could not be replaced
            self._process.kill()
            raise

    @property
    def id(self) -> int | None:
        """Return the number of the process."""
        return self._process.pid

    def _watch(self, on_end: Callable[[Worker], None]) -> None:
        wait([self._process.sentinel])
        on_end(self)

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    def terminate(self) -> None:
        """Tell it to end after its calls."""
        self.is_ended_by_us = True
        self._process.terminate()

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most so many seconds."""
        self._process.join(seconds)

    def end_within(self, seconds: float) -> None:
        """Wait for its end, and kill it after so many seconds."""
        self._process.join(max(0.0, seconds))
        if self._process.is_alive():
            log.warning("worker process %s did not end within its time: it is killed", self._process.pid)
            self._process.kill()
            self._process.join()


def _context() -> Any:
    method = multiprocessing.get_start_method()
    return multiprocessing.get_context(method if method in ("fork", "spawn") else "spawn")


class Supervisor:
    """Keeps `count` workers running, each of which calls `run` with its place among the `heartbeats`.

    Each worker releases `started` once it serves; on SIGHUP an old worker ends only after that. SIGTERM and SIGINT
    end the workers, after a call of `on_stop`, and those that still run after `kill_seconds` are killed.
    """

    def __init__(
        self,
        count: int,
        run: Callable[[int], None],
        started: Semaphore,
        heartbeats: Heartbeats,
        kill_seconds: float,
        on_stop: Callable[[], None],
    ) -> None:
        self._count = count
        self._run = run
        self._started = started
        self._heartbeats = heartbeats
        self._kill_seconds = kill_seconds
        self._on_stop = on_stop
        self._changed = SignalEvent()
        self._is_stopping = self._reloads = self._is_hopeless = False
        self._workers: list[Worker] = []
        self._leaving: list[Worker] = []
        """Replaced workers that still end their calls when the hub is to stop."""
        self._ended: deque[Worker] = deque()
        self._backoff = Backoff()
        self._short_lives = ShortLives()

    def serve(self) -> bool:
        """Serve until a signal, or until no start helps; return whether a signal ended it. Main thread only."""
        for number in SIGNALS:
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._reload)
        self._workers = [self._start() for _ in range(self._count)]
        watch = (self._heartbeats, lambda: self._is_stopping, self._list_processes)
        threading.Thread(target=end_hung_workers, args=watch, name="hung workers", daemon=True).start()
        try:
            while not self._is_stopping:
                self._changed.wait()
                self._changed.clear()
                self._replace_ended()
                if self._reloads and not self._is_stopping:
                    self._reloads = False
                    self._replace_all()
        finally:
            self._end_all()
        return not self._is_hopeless

    def _end_all(self) -> None:
        """End the workers: those that still run after `kill_seconds` are killed."""
        self._on_stop()
        for worker in self._workers:
            worker.terminate()
        until = time.monotonic() + self._kill_seconds
        for worker in (*self._workers, *self._leaving):
            worker.end_within(until - time.monotonic())

    def _stop(self, *_: object) -> None:
        self._is_stopping = True
        self._changed.set()

    def _stops(self) -> bool:
        """Whether a signal has come meanwhile."""
        return self._is_stopping

    def _reload(self, *_: object) -> None:
        self._reloads = True
        self._changed.set()

    def _start(self) -> Worker:
        worker = Worker(self._run, self._heartbeats.take_place(), self._note_end)
        if worker.id is not None:
            self._heartbeats.expect(worker.place, worker.id)
        return worker

    def _note_end(self, worker: Worker) -> None:
        """On the thread that watches a worker."""
        if not worker.is_ended_by_us:
            self._ended.append(worker)
            self._changed.set()

    def _list_processes(self) -> set[int]:
        """Return the workers that run."""
        return {worker.id for worker in [*self._workers] if worker.id is not None and worker.is_alive()}

    def _pause(self) -> None:
        """Wait before a replacement, if others ended recently."""
        until = time.monotonic() + self._backoff.pause(time.monotonic())
        while (left := until - time.monotonic()) > 0 and not self._stops():
            time.sleep(min(left, LOOK_SECONDS))

    def _replace_ended(self) -> None:
        """Replace the workers that have ended. If the hub is to stop, replace none."""
        while self._ended and not self._is_stopping:
            ended = self._ended.popleft()
            ended.wait(LOOK_SECONDS)  # its files are closed a moment before the system counts it as ended
            self._heartbeats.clear(ended.place)
            is_new, ended.is_counted = not ended.is_counted, True
            if is_new and self._short_lives.add(time.monotonic() - ended.begun):
                log.error(
                    "%d workers in a row ended within %g seconds after their start: the hub stops, because another"
                    " start does not help. The lines above say why they ended; `patchbay doctor` checks the machine",
                    MAX_SHORT_LIVES,
                    SHORT_LIFE_SECONDS,
                )
                self._is_hopeless = self._is_stopping = True
                return
            self._pause()
            if not self._stops() and ended in self._workers and not self._replace(ended):
                return

    def _replace(self, ended: Worker) -> bool:
        """Start a worker in the place of one that has ended; False when the system has no process or thread for it."""
        try:
            self._workers[self._workers.index(ended)] = self._start()
        except (OSError, RuntimeError) as problem:
            log.error("no worker process can be started now: %s; the next try follows", problem)
            self._ended.append(ended)
            self._changed.set()
            return False
        return True

    def _replace_all(self) -> None:
        """Start a new worker in the place of each, and end the old one once the new one serves."""
        for number, old in enumerate([*self._workers]):
            if self._is_stopping:
                return
            while self._started.acquire(block=False):
                continue
            try:
                new = self._start()
            except (OSError, RuntimeError) as problem:
                log.error("the workers are not replaced: no process can be started now: %s", problem)
                return
            self._workers[number] = new
            if not self._serves(new) and not self._stops():
                log.error("the workers are not replaced: a new one did not serve within %g s", START_SECONDS)
                self._workers[number] = old
                new.terminate()
                new.end_within(self._kill_seconds)
                self._heartbeats.clear(new.place)
                return
            old.terminate()
            self._wait_for_end(old)
            self._heartbeats.clear(old.place)

    def _serves(self, new: Worker) -> bool:
        """Wait until a new worker serves; False when it has ended, or takes too long, or the hub is to stop."""
        until = time.monotonic() + START_SECONDS
        while not self._started.acquire(timeout=LOOK_SECONDS):
            if self._stops() or not new.is_alive() or time.monotonic() > until:
                return False
        return True

    def _wait_for_end(self, old: Worker) -> None:
        """Wait until an old worker has ended its calls, and meanwhile replace others; a stop ends the wait."""
        until = time.monotonic() + self._kill_seconds
        while old.is_alive() and time.monotonic() < until and not self._stops():
            self._replace_ended()
            old.wait(LOOK_SECONDS)
        if not self._stops():
            old.end_within(0.0)
        else:
            self._leaving.append(old)
