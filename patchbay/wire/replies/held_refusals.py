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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from patchbay.events import Wait
from patchbay.wire.replies.reply import ListeningBody, Reply

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
    """Holds back the refusals for a quota of one worker.

    These are the answers with `Retry-After`, but for 503, which says that the hub itself has too much work.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        """Refusals that wait, by principal."""

    def held(self, reply: Reply, sender: str) -> Reply:
        """Return a reply to this principal as it is, or one that waits first if it refuses a call for a quota."""
        if not reply.headers or not _is_refusal(reply.status, reply.headers) or self._held.total() >= MAX_HELD:
            return reply
        head = reply.head[1:] if isinstance(reply.body, bytes) else reply.headers  # without the header that comes first
        body = ListeningBody(self._later(_whole(reply.body), sender))
        return replace(reply, body=body, kind=None, headers=head)

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


def _whole(body: bytes | Iterable[bytes]) -> bytes:
    """Return a whole body, and close it."""
    if isinstance(body, bytes):
        return body
    try:
        return b"".join(body)
    finally:
        closing = getattr(body, "close", None)
        if closing is not None:
            closing()


def _is_refusal(status: int, headers: list[tuple[str, str]]) -> bool:
    """Whether an answer refuses a call for a quota."""
    return status != 503 and "Retry-After" in dict(headers)
