"""The time limit of one request, which stops running while a question is open."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class TimeBudget:
    """A number of seconds that stops running while a question is open. Used on the event loop only."""

    def __init__(self, seconds: float | None) -> None:
        self._left = math.inf if seconds is None else seconds
        self._scope: anyio.CancelScope | None = None
        self._paused = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Use the budget in this block. Raises TimeoutError when it is used up."""
        with anyio.CancelScope(deadline=anyio.current_time() + self._left) as self._scope:
            yield
        if self._scope.cancelled_caught:
            raise TimeoutError

    def deduct(self, seconds: float) -> None:
        """Deduct the seconds that were used before the clock runs."""
        self._left = max(0.0, self._left - seconds)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock in this block."""
        if not self._paused and self._scope is not None:
            self._left = self._scope.deadline - anyio.current_time()
            self._scope.deadline = math.inf
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1
            if not self._paused and self._scope is not None:
                self._scope.deadline = anyio.current_time() + self._left
