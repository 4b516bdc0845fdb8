"""Limits the requests that run at once, so that one address cannot take every thread, and health checks always work.

There are EXTRA_THREADS more threads for requests than the setting `threads`: they never run long requests, so that
`/healthz`, `/readyz` and refusals are answered while all others are busy. When few threads are free, an address that
holds more than half of the used ones gets no more. A request without a thread waits for a short time, then it gets a
503. No lock is taken while threads are free.
Source: CWE-400 (uncontrolled resource consumption).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from patchbay.errors import PatchbayError
from patchbay.jsonrpc import failure
from patchbay.wire.replies.reply import ClosingBody, Reply, call_part, json_reply, listening_part
from patchbay.wire.requests.rsgi import WAITING

EXTRA_THREADS = 32
"""Threads of each worker in addition to the setting `threads`."""

MAX_WAITING = 24
"""Limit on the requests that wait for a thread; the other extra threads answer health checks."""

MAX_FREE = 64
"""Threads reserved for other addresses than the one with the most; at most a quarter of all threads."""

PATIENCE_SECONDS = 1.0
STUCK_SECONDS = 0.1
"""Limit on the wait of a request for a thread; after this time without an ended request the threads count as stuck."""

HEALTH = frozenset({"/healthz", "/readyz"})


class TooManyRequests(PatchbayError):
    """All threads for an address are busy."""

    status = 503

    def __init__(self) -> None:
        super().__init__("too many requests are running; try again later (setting threads)")


class NoDescriptors(PatchbayError):
    """The worker can open no file and no connection."""

    status = 503

    def __init__(self) -> None:
        super().__init__("the hub has no free connections or files; try again later")


class WorkPlace:
    """The place of one request of an address among those that hold a thread."""

    __slots__ = ("_address", "_limits")

    def __init__(self, limits: WorkLimits, address: str) -> None:
        self._limits = limits
        self._address = address

    def rest(self) -> None:
        """Leave the place, because the answer waits without a thread."""
        self._limits.leave(self)

    def go_on(self) -> None:
        """Take the place again."""
        self._limits.take(self, self._address)


class WorkLimits:
    """WSGI middleware that passes requests to `app`, at most `threads` at once, and none while `is_short()`.

    Health checks always pass, with the path `prefix` of the hub and without it.

    A streamed answer counts until its end, except while it waits on the event loop.
    """

    def __init__(
        self,
        app: Callable[[Any, Any], Iterable[bytes]],
        threads: int,
        is_short: Callable[[], bool] = lambda: False,
        prefix: str = "",
    ) -> None:
        self._app = app
        self._health = HEALTH | {prefix + path for path in HEALTH}
        self._is_short = is_short
        self._threads = threads
        self._crowded = threads - min(MAX_FREE, threads // 4)
        self._working: dict[WorkPlace, str] = {}
        self._ended = 0.0
        self._waiting = 0
        self._changed = threading.Condition()

    def __call__(self, environ: MutableMapping[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] in self._health:
            return self._app(environ, start_response)
        place = self.enter(environ.get("REMOTE_ADDR", ""))
        if isinstance(place, Reply):
            return place.send(start_response)
        try:
            body = self._app(environ, start_response)
        except BaseException:
            self.leave(place)
            raise
        # A whole answer, or a stream that waits without a thread, needs no thread any more.
        if type(body) is tuple or (environ.get(WAITING) is not None and listening_part(body) is not None):
            self.leave(place)
            return body
        if (streamed := call_part(body)) is not None:
            streamed.place = place
        return ClosingBody(body, lambda: self.leave(place))

    def enter(self, address: str) -> WorkPlace | Reply:
        """Return the place of a request of this address, after a short wait if needed, or its refusal."""
        if self._is_short():
            return json_reply(failure(None, NoDescriptors()), NoDescriptors.status)
        if len(self._working) >= self._crowded and not self._wait_for_place(address):
            return json_reply(failure(None, TooManyRequests()), TooManyRequests.status)
        place = WorkPlace(self, address)
        self._working[place] = address
        return place

    def leave(self, place: WorkPlace) -> None:
        """Give back the place of a request; a second time does nothing."""
        if self._working.pop(place, None) is None:
            return
        self._ended = time.monotonic()
        if self._waiting:
            with self._changed:
                self._changed.notify_all()

    def take(self, place: WorkPlace, address: str) -> None:
        """Count a place of an address."""
        self._working[place] = address

    def _wait_for_place(self, address: str) -> bool:
        """Whether a request of this address gets a thread, after a short wait if needed."""
        if self._has_place(address):
            return True
        begun = time.monotonic()
        with self._changed:
            if self._waiting >= MAX_WAITING and begun - self._ended > STUCK_SECONDS:
                return False
            self._waiting += 1
            try:
                return self._changed.wait_for(lambda: self._has_place(address), PATIENCE_SECONDS)
            finally:
                self._waiting -= 1

    def _has_place(self, address: str) -> bool:
        busy = [*self._working.values()]
        if len(busy) < self._crowded:
            return True
        return len(busy) < self._threads and 2 * busy.count(address) <= len(busy)
