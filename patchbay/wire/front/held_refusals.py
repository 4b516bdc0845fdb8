"""Holds back the answers that refuse a call for a quota, so that a client that repeats at once makes no load.

A refusal costs the hub almost as much as a short call. A client that ignores `Retry-After` would get thousands of them
a second and slow down every other caller. So each refusal waits about a second on the event loop of the worker, where
it holds no thread; a connection cannot send its next request before. The refusals of a principal with many connections
wait longer, so that each principal gets about `REFUSALS_PER_SECOND`. Without an event loop they are sent at once.
Source: RFC 9110, section 10.2.3 (`Retry-After`).
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import replace
from typing import Any

from patchbay.events import Wait
from patchbay.wire.replies.reply import ListeningBody, Reply, StartResponse
from patchbay.wire.requests.authentication import principal_of
from patchbay.wire.requests.rsgi import WAITING

HOLD_SECONDS = (0.5, 1.5)
"""Seconds between a refusal and its answer: a random number, so that many connections do not return together."""

REFUSALS_PER_SECOND = 20
"""Refusals that a principal gets in a second from a worker, about, when it has many of them."""

MAX_HOLD_SECONDS = 10.0
"""Limit on the wait of a refusal: most clients wait longer for an answer."""

MAX_HELD = 4096
"""Refusals that wait at once in a worker; further ones are sent at once."""


class _Silence:
    """A mailbox without messages: a Wait for it lasts until its seconds are over."""

    dropped = 0
    closed = False

    def get(self, timeout: float) -> tuple[str, bytes] | None:
        self.wait(timeout)
        return None

    def wait(self, timeout: float) -> None:
        time.sleep(timeout)

    def call_when_ready(self, callback: Callable[[], None]) -> bool:
        return True

    def cancel_call(self) -> bool:
        return True

    def close(self) -> None: ...

    def __enter__(self) -> _Silence:
        return self

    def __exit__(self, *exc: object) -> None: ...


class HeldRefusals:
    """WSGI middleware: passes requests to `app`, and holds back its refusals for a quota.

    These are the answers with `Retry-After`, but for 503, which says that the hub itself has too much work.
    """

    def __init__(self, app: Callable[[Any, StartResponse], Iterable[bytes]]) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        """Refusals that wait, by principal."""

    def __call__(self, environ: MutableMapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if environ.get(WAITING) is None:
            return self._app(environ, start_response)
        refused = False

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            nonlocal refused
            refused = _is_refusal(int(status[:3]), headers)
            return start_response(status, headers, *rest)

        body = self._app(environ, start)
        if not refused or self._held.total() >= MAX_HELD:
            return body
        try:
            data = b"".join(body)
        finally:
            closing = getattr(body, "close", None)
            if closing is not None:
                closing()
        return ListeningBody(self._later(data, principal_of(environ).id))

    def held(self, reply: Reply, sender: str) -> Reply:
        """Return a reply to this principal as it is, or one that waits first if it refuses a call for a quota."""
        if not isinstance(reply.body, bytes) or not _is_refusal(reply.status, reply.headers):
            return reply
        if self._held.total() >= MAX_HELD:
            return reply
        headers = [*reply.headers, ("Content-Length", str(len(reply.body)))]
        return replace(reply, body=ListeningBody(self._later(reply.body, sender)), headers=headers)

    def _later(self, data: bytes, id: str) -> Iterator[bytes | Wait]:
        with self._lock:
            self._held[id] += 1
        try:
            until = time.monotonic() + self._hold_seconds(id)
            while (left := until - time.monotonic()) > 0:
                yield Wait(_Silence(), left)
            yield data
        finally:
            with self._lock:
                self._held[id] -= 1
                if not self._held[id]:
                    del self._held[id]

    def _hold_seconds(self, id: str) -> float:
        """Return the seconds that a refusal of a principal waits."""
        seconds = random.uniform(*HOLD_SECONDS) * max(1.0, self._held[id] / REFUSALS_PER_SECOND)
        return min(seconds, MAX_HOLD_SECONDS)


def _is_refusal(status: int, headers: list[tuple[str, str]]) -> bool:
    """Whether an answer refuses a call for a quota."""
    return status != 503 and "Retry-After" in dict(headers)
