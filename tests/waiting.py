"""Waits for conditions in tests, with one generous bound."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

BOUND = 60.0
"""Seconds after which a wait fails."""

POLL_SECONDS = 0.01
"""Seconds between two checks of a condition."""

What = str | Callable[[], object]
"""A description of the expected condition; a function makes it when the wait fails."""

REQUESTS_FOR_EVERY_WORKER = 24
"""Number of connections after which each of two workers has probably answered."""

_NEVER = threading.Event()


def until(condition: Callable[[], Any], what: What = "the condition") -> Any:
    """Wait until a condition is true; return its value. Fails with `what` after BOUND seconds."""
    end = time.monotonic() + BOUND
    while not (value := condition()):
        if time.monotonic() >= end:
            raise failure(what)
        _NEVER.wait(POLL_SECONDS)
    return value


def until_every_worker(condition: Callable[[], Any], what: What = "the condition") -> None:
    """Wait until a condition is true in all workers of a hub. It asks the hub over a new connection each time."""
    until(lambda: all(condition() for _ in range(REQUESTS_FOR_EVERY_WORKER)), what)


async def until_async(condition: Callable[[], Any], what: What = "the condition") -> Any:
    """Wait in a coroutine, as `until` does. The condition may return an awaitable."""
    end = time.monotonic() + BOUND
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() >= end:
            raise failure(what)
        await asyncio.sleep(POLL_SECONDS)


def failure(what: What) -> AssertionError:
    """Return the error of a wait that reached its bound."""
    return AssertionError(f"waited {BOUND:g} s in vain: {what() if callable(what) else what}")
