"""Notices a worker that hangs: each worker writes a heartbeat into memory that all processes of the hub share.

A Python thread of the worker writes it, so it stops when the process is stopped, and when code that is not Python keeps
the interpreter for itself. The supervisor ends such a worker, and the web server replaces it. A call that waits, or
that waits in Python for a lock, hangs no worker: it ends at its own deadline.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.sharedctypes import RawArray

log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
"""Seconds between two heartbeats."""

LATE_SECONDS = 4.0
"""Seconds without a heartbeat after which `/healthz` of the other workers tells it."""

HUNG_SECONDS = 8.0
"""Seconds without a heartbeat after which the supervisor ends the worker."""

BEGIN_SECONDS = 30.0
"""Seconds from the start of a worker's process to its first heartbeat after which the supervisor ends it."""

LOOK_SECONDS = 0.5
"""Seconds between two checks of the supervisor."""

TRACE_SECONDS = 0.3
"""Seconds that a hung worker has to write where its threads are."""

TRACE_SIGNAL = signal.SIGUSR1
"""Makes a worker write where its threads are to standard error, also while it hangs."""


class Heartbeats:
    """The last heartbeat of each worker. A worker and its replacement have different places.

    The supervisor makes it and takes the places; each worker begins its own.
    """

    def __init__(self, workers: int) -> None:
        self._processes = RawArray("q", 2 * workers)
        self._times = RawArray("d", 2 * workers)
        self._next = 0

    def take_place(self) -> int:
        """Return a place for a new worker: the one that has been unused for longest."""
        count = len(self._processes)
        order = [(self._next + step) % count for step in range(count)]
        place = next((one for one in order if not self._processes[one]), self._next)
        self._next = (place + 1) % count
        return place

    def clear(self, place: int) -> None:
        """Forget the worker of this place."""
        self._processes[place] = 0

    def expect(self, place: int, process: int) -> None:
        """Expect the first heartbeat of a new worker within BEGIN_SECONDS. Called by the supervisor.

        A fork copies the locks that other threads hold at this moment, and their copies are never released: a worker
        that waits for one before it begins would never serve and never end.
        """
        if self._processes[place] != process:
            self._times[place] = time.monotonic() + BEGIN_SECONDS - HUNG_SECONDS
            self._processes[place] = process

    def begin(self, place: int) -> None:
        """Begin the heartbeats of this process, on a thread of their own. Main thread only."""
        faulthandler.register(TRACE_SIGNAL, all_threads=True)
        self._times[place] = time.monotonic()
        self._processes[place] = os.getpid()
        threading.Thread(target=self._beat, args=(place,), name="heartbeat", daemon=True).start()

    def _beat(self, place: int) -> None:
        pause, process = threading.Event(), os.getpid()
        while self._processes[place] == process:
            self._times[place] = time.monotonic()
            pause.wait(BEAT_SECONDS)

    def find_silent(self, seconds: float, since: float = 0.0) -> dict[int, float]:
        """Return the processes of workers without a heartbeat for so many seconds, with that time.

        Nothing before `since`, on the monotonic clock, counts.
        """
        now = time.monotonic()
        places = zip(self._processes, self._times, strict=True)
        silences = ((process, now - max(beat, since)) for process, beat in places)
        return {process: silence for process, silence in silences if process and silence >= seconds}

    def describe_problem(self) -> str | None:
        """Return a sentence about workers that do not respond, None without one."""
        silent = self.find_silent(LATE_SECONDS)
        if not silent:
            return None
        told = ", ".join(f"worker process {process} for {silence:.0f} s" for process, silence in silent.items())
        return f"not responding: {told}; a worker is replaced after {HUNG_SECONDS:g} s"


def end_hung_workers(heartbeats: Heartbeats, is_over: Callable[[], bool], processes: Callable[[], set[int]]) -> None:
    """End workers that hang, until `is_over`. Runs in the supervisor, on a thread of its own.

    `processes` returns the workers that run: the number of an ended one may belong to another program by now.
    A check that comes late shows that the whole machine was busy or asleep: then each worker gets its full time again.
    """
    pause = threading.Event()
    since = looked = time.monotonic()
    while not is_over():
        pause.wait(LOOK_SECONDS)
        now = time.monotonic()
        if now - looked > LOOK_SECONDS + BEAT_SECONDS:
            since = now
        looked = now
        for process, silence in heartbeats.find_silent(HUNG_SECONDS, since).items():
            if process in processes():
                _end(process, silence)


def _end(process: int, silence: float) -> None:
    log.error(
        "worker process %d has not responded for %.0f s: it is stopped, or code that is not Python keeps the"
        " interpreter for itself. It is ended and replaced, and its calls with it. If Python can write where its"
        " threads are, those lines follow; a tool that they name runs apart from the hub with `isolation: process`",
        process,
        silence,
    )
    with suppress(ProcessLookupError):
        os.kill(process, TRACE_SIGNAL)
        threading.Event().wait(TRACE_SECONDS)
        os.kill(process, signal.SIGKILL)
