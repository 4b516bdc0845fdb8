"""A connection whose statements end: with an answer, with an error, or after a time without a sign of the server.

The limits of the server (`statement_timeout`) and of the network (keepalives, `tcp_user_timeout`) do not help when the
server is suspended, its disk does not answer, or a pooler in between waits: the connection stays open and silent.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg

ANSWER_SECONDS = 12.0
"""Seconds of silence after which a statement fails: longer than `lock_timeout`, whose error has to come first."""

LONG_ANSWER_SECONDS = 32.0
"""The same for work on many rows or bytes: longer than `statement_timeout`."""

Row = tuple[Any, ...]


class LimitedConnection(psycopg.Connection[Row]):
    """Closes itself, and raises OperationalError, after `answer_seconds` in which nothing is sent or received."""

    answer_seconds = ANSWER_SECONDS

    def wait(self, gen: Generator[Any, Any, Any], *given: Any, **named: Any) -> Any:
        """Run a step of the protocol, as the base class does, until it is done or the server is silent."""
        return super().wait(self._limit(gen), *given, **named)

    def _limit(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Pass on what `gen` waits for. Without readiness the base class sends a zero, ten times a second."""
        until = time.monotonic() + self.answer_seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    until = now + self.answer_seconds
                elif now > until:
                    self.close()
                    raise psycopg.OperationalError(f"the server did not answer for {self.answer_seconds:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value
