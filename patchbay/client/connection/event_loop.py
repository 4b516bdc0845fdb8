"""The background thread with an event loop that runs all connections of this process.

It starts at the first use and ends with the interpreter; tasks that still run are cancelled then and may clean up. The
rest of this program is synchronous: it submits coroutines and waits; a Ctrl-C during the wait cancels them.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

log = logging.getLogger(__name__)

CLOSE_GRACE_SECONDS = 10.0
"""Seconds that tasks on the loop have to clean up when the interpreter ends."""

T = TypeVar("T")


class EventLoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, name: str = "patchbay-client") -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine; cancelling the future cancels it. Raises RuntimeError when the loop has ended."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine and return its value. Raises its exception, and TimeoutError after `timeout` seconds."""
        future = self.start(work)
        try:
            return future.result(timeout)
        finally:
            future.cancel()

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function on the loop, from any thread; does nothing when the loop has ended."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            log.debug("the loop has ended; %r is not called", function)

    def close(self) -> None:
        """Cancel all tasks, wait until they have cleaned up, end the thread. May be called twice."""
        if not self._thread.is_alive():
            return
        try:
            self.run(self._cancel_all(), CLOSE_GRACE_SECONDS)
        except TimeoutError:
            log.warning("some connections did not end within %s s", CLOSE_GRACE_SECONDS)
        self.call_soon(self._loop.stop)
        self._thread.join(CLOSE_GRACE_SECONDS)

    async def _cancel_all(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


@cache
def _get_loop(pid: int, name: str) -> EventLoopThread:
    loop = EventLoopThread(name)
    atexit.register(loop.close)
    return loop


_locks = {"creation": threading.Lock()}


def _renew_lock() -> None:
    """A thread that the child does not have may hold the lock."""
    _locks["creation"] = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def get_shared_loop() -> EventLoopThread:
    """Get the loop of this process; a forked child gets its own, because it has no thread of its parent."""
    with _locks["creation"]:  # two threads would get two loops, and a client of one loop hangs on the other
        return _get_loop(os.getpid(), "patchbay-client")


def get_egress_loop() -> EventLoopThread:
    """Get the loop for what confined programs send to hosts, so that it does not delay messages."""
    with _locks["creation"]:
        return _get_loop(os.getpid(), "patchbay-egress")
