"""The event loop of a worker: callbacks of other threads."""

from __future__ import annotations

import threading

import pytest

from patchbay.wire.front.event_loop import CALLS_AT_ONCE, EventLoop

BOUND = 60.0


def test_callbacks_of_a_thread_run_in_their_order_and_none_is_lost() -> None:
    """One wake-up of the loop serves many callbacks, also those that come while it runs others."""
    loop, done = EventLoop(), threading.Event()
    found: dict[int, list[int]] = {number: [] for number in range(4)}

    def give(number: int) -> None:
        for count in range(2000):
            loop.call(found[number].append, count)

    threads = [threading.Thread(target=give, args=(number,)) for number in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loop.call(done.set)
    assert done.wait(BOUND)
    assert all(one == list(range(2000)) for one in found.values())


def test_callbacks_that_come_while_the_loop_is_busy_all_run_afterwards() -> None:
    """Connections have their turn between them, and none waits for the next wake-up."""
    loop, busy, free, done = EventLoop(), threading.Event(), threading.Event(), threading.Event()
    loop.call(busy.set)
    loop.call(free.wait, BOUND)
    assert busy.wait(BOUND)
    found: list[int] = []
    for number in range(10 * CALLS_AT_ONCE):
        loop.call(found.append, number)
    loop.call(done.set)
    free.set()
    assert done.wait(BOUND)
    assert found == list(range(10 * CALLS_AT_ONCE))


def test_a_callback_that_fails_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    loop, done = EventLoop(), threading.Event()
    loop.call(int, "no number")
    loop.call(done.set)
    assert done.wait(BOUND)
    assert "a callback of the event loop failed" in caplog.text
