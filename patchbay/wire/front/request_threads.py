"""Runs requests: a few at a time while they use the processor, many while they wait for something.

Threads that run at the same time wait for each other's interpreter lock, up to 5 ms for each of them, so at most
MAX_BUSY_REQUESTS run at once, on the threads of the web server that bring them, and the others wait for a moment: a
quick one needs much less. When requests wait although the process does not use a processor, those that run wait
themselves, for a tool or another server; then the limit rises, and further threads run the others. `SPARE_WEB_THREADS`
of the web server's threads never run a request: they take new requests, bodies and events of connections, which is
quick. A further thread sleeps until it gets a request; the thread that became idle last gets the next one.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

from patchbay.wire.front.event_loop import EventLoop

log = logging.getLogger(__name__)

MAX_BUSY_REQUESTS = 3
"""Requests that run at once in a worker that uses a processor."""

SPARE_WEB_THREADS = 1
"""Threads of the web server that run no request."""

LOOK_SECONDS = 0.004
"""Seconds between two looks at what runs and what waits, while more than MAX_BUSY_REQUESTS requests are there."""

BUSY_SHARE, QUICK_SECONDS = 0.5, 0.004
"""A worker that uses this share of a processor, with requests that take no longer on average, runs at most
MAX_BUSY_REQUESTS at once."""

FULL_SHARE, FALL = 0.9, 8
"""From this share of a processor on, further threads bring nothing: the limit falls by one of FALL at each look."""

IDLE_SECONDS = 5.0
"""Seconds after which an idle thread ends."""

Work = Callable[[], None]


class RequestThreads:
    """At most `most` requests at a time; later ones wait in the order in which they came. `loop` looks at them."""

    def __init__(self, most: int, loop: EventLoop) -> None:
        self.loop = loop
        self.on_web_threads = min(most, MAX_BUSY_REQUESTS)
        self._most = most
        self._limit = self.on_web_threads
        self._on_web = 0
        self._lock = threading.Lock()
        self._idle: list[RequestThread] = []
        self._queue: deque[Work] = deque()
        self._started = 0
        self._ended = 0
        self._is_watched = False
        self._seen = (0.0, 0.0, 0)
        """Of the last look: the time, the processor time of the process, and the requests that had ended."""

    @property
    def web_threads(self) -> int:
        """Return the number of threads that the web server should have."""
        return self.on_web_threads + SPARE_WEB_THREADS

    @property
    def started(self) -> int:
        """Return the number of further threads now."""
        return self._started

    @property
    def limit(self) -> int:
        """Return how many requests run at once now; further ones wait."""
        return self._limit

    @property
    def waiting(self) -> int:
        """Return how many requests wait for a place."""
        return len(self._queue)

    @property
    def _running(self) -> int:
        return self._on_web + self._started - len(self._idle)

    def run(self, work: Work) -> None:
        """Run the work of a request here, on a thread of the web server, or have another thread run it."""
        with self._lock:
            is_here = self._on_web < self.on_web_threads and self._running < self._limit
            if is_here:
                self._on_web += 1
        if is_here:
            self._run_here(work)
        else:
            self.start(work)

    def start(self, work: Work) -> None:
        """Have a further thread run the work of a request, now or when there is a place; from any thread."""
        with self._lock:
            # Each request that runs looks at the queue at its end.
            if self._running >= self._limit:
                self._queue.append(work)
                self._watch()
                return
            is_new = self._hand_over(work)
        if is_new:
            self._start(work)

    def _hand_over(self, work: Work) -> bool:
        """Give work to an idle thread, or count a new one, which the caller starts; return whether it is new.

        The caller holds the lock.
        """
        is_new = not self._idle
        if is_new:
            self._started += 1
        else:
            self._idle.pop().give(work)
        if self._running > MAX_BUSY_REQUESTS:
            self._watch()
        return is_new

    def _run_here(self, work: Work) -> None:
        """Run work, then waiting requests, on this thread of the web server."""
        waiting: Work | None = work
        while waiting is not None:
            run_logged(waiting)
            waiting = self._next_here()

    def _next_here(self) -> Work | None:
        with self._lock:
            waiting = self._next()
            if waiting is None:
                self._on_web -= 1
            return waiting

    def _next(self) -> Work | None:
        """At the end of a request: return the next one for its thread. The caller holds the lock."""
        self._ended += 1
        return self._queue.popleft() if self._queue and self._running <= self._limit else None

    def _start(self, work: Work) -> None:
        try:
            RequestThread(self, work).start()
        except RuntimeError:  # the system has no more threads
            with self._lock:
                self._started -= 1
                if self._running:  # one of these takes it at its end
                    self._queue.appendleft(work)
                    self._watch()
                    return
            run_logged(work)

    def _watch(self) -> None:
        """Look at the requests again and again, from now on. The caller holds the lock."""
        if not self._is_watched:
            self._is_watched = True
            self._seen = (time.monotonic(), time.process_time(), self._ended)
            self.loop.call_later(LOOK_SECONDS, self.look)

    def look(self) -> None:
        """Set the limit by what the process does, and begin the requests that have a place then. On the event loop."""
        now, used = time.monotonic(), time.process_time()
        then, used_then, ended_then = self._seen
        with self._lock:
            ended, seconds = self._ended - ended_then, now - then
            are_quick = self._running * seconds <= QUICK_SECONDS * ended
            share = (used - used_then) / max(seconds, sys.float_info.min)
            if ended and are_quick and share >= BUSY_SHARE:
                self._limit = self.on_web_threads
            elif ended and share >= FULL_SHARE:
                self._limit = max(self.on_web_threads, self._limit - 1 - self._limit // FALL)
            else:  # at most twice as many, because one look can be wrong on a machine with other work
                more = min(len(self._queue), max(self._running, MAX_BUSY_REQUESTS))
                self._limit = min(self._most, max(self._limit, self._running + more))
            begun = [self._queue.popleft() for _ in range(min(len(self._queue), self._limit - self._running))]
            new = [work for work in begun if self._hand_over(work)]
            self._seen = (now, used, self._ended)
            self._is_watched = bool(self._queue) or (ended > 0 and self._running > MAX_BUSY_REQUESTS)
            if self._is_watched:
                self.loop.call_later(LOOK_SECONDS, self.look)
        if new:
            self._start_elsewhere(new)

    def _start_elsewhere(self, new: list[Work]) -> None:
        """Start further threads without a wait for each of them, which would hold the event loop up."""
        try:
            threading.Thread(target=self._start_all, args=(new,), name="request-starter", daemon=True).start()
        except RuntimeError:  # the system has no more threads
            self._start_all(new)

    def _start_all(self, new: list[Work]) -> None:
        for work in new:
            self._start(work)

    def next_work(self, thread: RequestThread) -> Work | None:
        """Return the first waiting work; without any, the thread becomes idle."""
        with self._lock:
            waiting = self._next()
            if waiting is None:
                self._idle.append(thread)
            return waiting

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
