"""Interrupts of tools: one that a finalizer drops comes again, and other reports stay as they are."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from patchbay.events import Event, Failed
from patchbay.threads import interrupts
from patchbay.threads.interrupts import Stopped
from patchbay.threads.runner_threads import Pool, RunnerCall
from tests.kinds.calls import call_of, events
from tests.waiting import BOUND, until


class RaisesWhenFreed:
    def __init__(self, problem: BaseException) -> None:
        self.problem = problem

    def __del__(self) -> None:
        raise self.problem


class WaitsWhenFreed:
    """Its finalizer ends by an exception from outside only."""

    def __del__(self) -> None:
        while True:
            time.sleep(0.001)


def test_a_tool_stops_although_a_finalizer_dropped_the_interrupt() -> None:
    went_on, cleaned = threading.Event(), threading.Event()

    def work(job: RunnerCall) -> list[Event]:
        try:
            WaitsWhenFreed()
            went_on.set()
            while True:
                time.sleep(0.001)
        finally:
            cleaned.set()

    pool = Pool("busy")
    (failed,) = events(lambda call: pool.run(work, call), call_of(left=0.1))
    assert isinstance(failed, Failed)
    assert went_on.wait(BOUND), "the interrupt did not meet the finalizer"
    assert cleaned.wait(BOUND), "the tool goes on"
    until(lambda: pool.stuck == 0)


def test_an_interrupt_that_comes_again_does_not_disturb_the_cleanup_of_a_tool_that_ends() -> None:
    """The tool finds out itself that its call has ended, between the dropped interrupt and the next one."""
    cleaned = threading.Event()

    def work(job: RunnerCall) -> list[Event]:
        try:
            WaitsWhenFreed()
            job.stopping = True
            raise Stopped
        finally:
            for _ in range(50):
                time.sleep(0.001)
            cleaned.set()

    pool = Pool("ending")
    events(lambda call: pool.run(work, call), call_of(left=0.1))
    assert cleaned.wait(BOUND)


def test_only_dropped_interrupts_are_kept_from_the_hook_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_type))
    again = threading.Event()
    lost = interrupts._LostInterrupts()

    def drop_both() -> None:
        interrupts.when_lost(again.set)
        RaisesWhenFreed(Stopped())
        RaisesWhenFreed(ValueError("another problem"))

    lost.watch()
    thread = threading.Thread(target=drop_both)
    thread.start()
    thread.join(BOUND)
    assert reports == [ValueError]
    assert again.wait(BOUND)
