"""Observes one attempt to send a request: whether it used a kept connection, and whether an answer began.

A server may close a kept connection while a request is on its way. Then a request with a safe method may be sent again.
The errors of the library do not say which connection failed, nor whether a part of the answer arrived.

Sources: RFC 9110 section 9.2.2; RFC 9112 section 9.3.1 (retrying requests).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from patchbay.client.openapi.failures import CLOSED_EARLY

RETRIED_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods of requests that change nothing on the server."""

_running: ContextVar[Attempt] = ContextVar("attempt")
"""The attempt of the current task; a kept connection is used by many tasks, one after the other."""


class Attempt:
    """One attempt to send a request. `has_connected`: for it a connection was opened. `has_answered`: bytes arrived."""

    def __init__(self) -> None:
        self.has_connected = False
        self.has_answered = False

    def begin(self) -> dict[str, Any]:
        """Begin in the current task; return the extensions of the request."""
        _running.set(self)
        return {"trace": self._trace}

    def may_be_repeated(self, method: str, problem: BaseException) -> bool:
        """Whether the same request may be sent again after a failure."""
        is_kept_one = not self.has_connected and not self.has_answered
        return is_kept_one and method in RETRIED_METHODS and isinstance(problem, CLOSED_EARLY)

    async def _trace(self, event: str, details: Mapping[str, Any]) -> None:
        """Receive an event of httpcore (its extension `trace`)."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self.has_connected = True
            _observe_reads(details["return_value"])


def _observe_reads(stream: Any) -> None:
    """Make a new connection tell the attempt that reads from it about bytes; httpcore has no event for them."""
    read = stream.read

    async def read_and_note(max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = await read(max_bytes, timeout)
        if data:
            _running.get().has_answered = True
        return data

    stream.read = read_and_note
