"""The queue of calls for workers, and how many workers a quick definition has at a time."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from patchbay.errors import ToolFailed
from patchbay.kinds.python.workers.waiting_calls import (
    FAIR_SECONDS,
    MAX_QUICK_WORKERS,
    MAX_WAITING_CALLS,
    QUICK_SECONDS,
    STALL_SECONDS,
    Pace,
    WaitingCalls,
)


def order(key: str) -> Any:
    return SimpleNamespace(key=key, name=key)


def worker(key: str) -> Any:
    return SimpleNamespace(order=order(key))


def test_a_free_worker_goes_to_the_first_call_of_its_definition() -> None:
    """X2: one call is woken, and it has its worker already."""
    queue = WaitingCalls()
    other, first, second = queue.add(order("other")), queue.add(order("one")), queue.add(order("one"))
    free = worker("one")
    assert queue.give(free) is first
    assert (first.worker, second.worker, other.worker) == (free, None, None)
    assert len(queue) == 2


def test_a_worker_stays_idle_when_a_call_of_another_definition_has_waited_long() -> None:
    """X2: a definition that is called all the time does not keep every worker."""
    queue = WaitingCalls()
    other, _ = queue.add(order("other")), queue.add(order("one"))
    other.since -= 2 * FAIR_SECONDS
    assert queue.give(worker("one")) is None


def test_there_is_a_bound_to_the_calls_that_wait() -> None:
    queue = WaitingCalls()
    for _ in range(MAX_WAITING_CALLS):
        queue.add(order("one"))
    with pytest.raises(ToolFailed, match="one is busy"):
        queue.add(order("one"))


def test_a_call_that_was_woken_before_it_waits_does_not_wait() -> None:
    queue = WaitingCalls()
    call = queue.add(order("one"))
    queue.wake_all()
    queue.wake_all()
    call.since -= STALL_SECONDS
    over = threading.Thread(target=call.wait, args=(time.monotonic() + 600.0,))
    over.start()
    over.join(60)
    assert not over.is_alive()


def test_a_quick_definition_has_as_many_workers_as_the_machine_can_run() -> None:
    pace, now = Pace(), time.monotonic() + 3600
    assert not pace.is_crowded("new", MAX_QUICK_WORKERS)
    pace.note("quick", QUICK_SECONDS / 10, now)
    pace.note("slow", QUICK_SECONDS * 10, now)
    assert pace.is_crowded("quick", MAX_QUICK_WORKERS)
    assert not pace.is_crowded("quick", MAX_QUICK_WORKERS - 1)
    assert not pace.is_crowded("slow", MAX_QUICK_WORKERS)


def test_a_quick_definition_gets_more_workers_when_none_becomes_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """X2: calls that hang leave the later ones a worker."""
    pace, now = Pace(), 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now + 2 * STALL_SECONDS)
    pace.note("quick", QUICK_SECONDS / 10, now)
    assert not pace.is_crowded("quick", MAX_QUICK_WORKERS)
    pace.note("quick", None, now + 2 * STALL_SECONDS)
    assert pace.is_crowded("quick", MAX_QUICK_WORKERS)
    pace.forget_all_but(())
    assert not pace.is_crowded("quick", MAX_QUICK_WORKERS)
