"""Runs requests: on the few threads of the web server while some of them are free, else on further threads.

Threads that run at the same time wait for each other's interpreter lock, so the web server has few of them, and
`SPARE_WEB_THREADS` of them never run a request: they take new requests, bodies and events of connections, which is
quick. A further thread sleeps until it gets a request; the thread that became idle last gets the next one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

SPARE_WEB_THREADS = 2
"""Threads of the web server that run no request."""

MAX_REQUESTS_ON_WEB_THREADS = 7 * (os.cpu_count() or 1)
"""Requests that run on threads of the web server at a time, in each worker."""

IDLE_SECONDS = 5.0
"""Seconds after which an idle thread ends."""

Work = Callable[[], None]


class RequestThreads:
    """At most `most` requests at a time; later ones wait in the order in which they came."""

    def __init__(self, most: int) -> None:
        self.on_web_threads = min(most, MAX_REQUESTS_ON_WEB_THREADS)
        self._most = most - self.on_web_threads
        self._on_web = 0
        self._lock = threading.Lock()
        self._idle: list[RequestThread] = []
        self._queue: deque[Work] = deque()
        self._started = 0

    @property
    def web_threads(self) -> int:
        """Return the number of threads that the web server should have."""
        return self.on_web_threads + SPARE_WEB_THREADS

    @property
    def started(self) -> int:
        """Return the number of further threads now."""
        return self._started

    def run(self, work: Work) -> None:
        """Run the work of a request here, on a thread of the web server, or hand it to another thread."""
        with self._lock:
            is_here = self._on_web < self.on_web_threads
            if is_here:
                self._on_web += 1
        if is_here:
            self._run_here(work)
        else:
            self.start(work)

    def start(self, work: Work) -> None:
        """Hand the work of a request to a further thread; from any thread."""
        with self._lock:
            if self._idle:
                self._idle.pop().give(work)
                return
            # Without a running request, a further thread is the only one that could take work from the queue.
            if self._started >= self._most and (self._started or self._on_web):
                # Each request that runs now looks here at its end.
                self._queue.append(work)
                return
            self._started += 1
        self._start(work)

    def _run_here(self, work: Work) -> None:
        """Run work, then waiting requests, on this thread of the web server."""
        waiting: Work | None = work
        while waiting is not None:
            run_logged(waiting)
            waiting = self._next_here()

    def _next_here(self) -> Work | None:
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            self._on_web -= 1
            return None

    def _start(self, work: Work) -> None:
        try:
            RequestThread(self, work).start()
        except RuntimeError:  # the system has no more threads
            with self._lock:
                self._started -= 1
            run_logged(work)

    def next_work(self, thread: RequestThread) -> Work | None:
        """Return the first waiting work; without any, the thread becomes idle."""
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            self._idle.append(thread)
            return None

    def retire(self, thread: RequestThread) -> bool:
        """Remove an idle thread; return False if it was given work meanwhile."""
        with self._lock:
            if thread not in self._idle:
                return False
            self._idle.remove(thread)
            self._started -= 1
            return True


class RequestThread(threading.Thread):
    """One further thread, which begins with `work`."""

    def __init__(self, pool: RequestThreads, work: Work) -> None:
        super().__init__(name="request", daemon=True)
        self._pool = pool
        self._work: Work | None = work
        self._given = threading.Lock()
        self._given.acquire()

    def give(self, work: Work) -> None:
        """Give work to this thread, which is idle."""
        self._work = work
        self._given.release()

    def run(self) -> None:
        while self._work is not None:
            run_logged(self._work)
            self._work = None  # an idle thread keeps nothing of a request
            self._work = self._pool.next_work(self) or self._wait()

    def _wait(self) -> Work | None:
        """Return the work that this idle thread is given; None when it has waited for long enough and ends."""
        if not self._given.acquire(timeout=IDLE_SECONDS):
            if self._pool.retire(self):
                return None
            self._given.acquire()
        return self._work


def run_logged(work: Work) -> None:
    """Run work; log its error, which no caller could handle. Not even SystemExit ends the thread."""
    try:
        work()
    except BaseException:
        log.exception("a request failed in the front")
