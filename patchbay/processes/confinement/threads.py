"""Start commands in a thread that is confined, and thereby confine them, by the protections that need no namespaces.

One thread for each definition starts its commands, one after the other. It is confined once, because that takes a good
part of the time of a short command. After `FRESH_SECONDS` a thread with new rules replaces it: a new file beside a
hidden folder becomes readable then.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from patchbay.processes.confinement import landlock
from patchbay.processes.confinement.kernel import drop_capabilities
from patchbay.processes.confinement.paths import AllowedPaths
from patchbay.processes.confinement.protections import LANDLOCK

FRESH_SECONDS = 5.0
"""Age in seconds at which a confined thread ends."""

T = TypeVar("T")


class Confiner:
    """Starts the commands of one definition. `names` are the wanted protections."""

    def __init__(self, places: AllowedPaths, names: Collection[str]) -> None:
        self._places = places
        self._locked = LANDLOCK in names and landlock.version() > 0
        self._lock = threading.Lock()
        self._launcher: _Launcher | None = None

    def __call__(self, begin: Callable[[], T]) -> T:
        """What `begin` gives or raises, in a thread that is confined. Raises OSError when that cannot be done."""
        if not self._locked:
            return begin()
        with self._lock:
            launcher = self._launcher
            if launcher is None or not launcher.is_fresh():
                launcher = self._launcher = _Launcher(self._places, self._lock)
            work = launcher.put(begin)
        return work.result()


class _Launcher:
    """A confined thread. It ends when it is no longer fresh, after the work that it was given before.

    `lock` guards that it is given nothing once it ends.
    """

    def __init__(self, places: AllowedPaths, lock: threading.Lock) -> None:
        self._places = places
        self._lock = lock
        self._until = time.monotonic() + FRESH_SECONDS
        self._ended = False
        self._work: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._run, name="start of tools", daemon=True).start()

    def is_fresh(self) -> bool:
        """Whether this thread accepts work. Requires the lock."""
        return not self._ended and time.monotonic() < self._until

    def put(self, begin: Callable[[], T]) -> Future[T]:
        """Queue `begin` for this thread, and return the future of its result. Requires the lock."""
        done: Future[T] = Future()
        self._work.put((begin, done))
        return done

    def _run(self) -> None:
        problem = self._confine()
        while not self._ended:
            try:
                begin, done = self._work.get(timeout=max(0.0, self._until - time.monotonic()))
            except Empty:
                with self._lock:
                    self._ended = self._work.empty()
                continue
            try:
                if problem is not None:
                    raise problem
                done.set_result(begin())
            except BaseException as failure:
                done.set_exception(failure)

    def _confine(self) -> OSError | None:
        """Confine this thread for good; why that is not done, or None."""
        try:
            drop_capabilities()
            ruleset = landlock.make_ruleset(self._places)
            try:
                landlock.enforce(ruleset)
            finally:
                os.close(ruleset)
        except OSError as problem:
            return problem
        return None
