"""Runner threads: limits, busy pools, threads that return late."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from patchbay.activation import Call, Events, activate
from patchbay.errors import ToolFailed
from patchbay.events import Done, Event, Failed, Text
from patchbay.threads import runner_threads
from patchbay.threads.interrupts import Stopped
from patchbay.threads.runner_threads import Pool, RunnerCall
from tests.kinds.calls import call_of, events, next_event
from tests.waiting import BOUND, until


def alive(pool: Pool) -> int:
    return sum(runner.thread.is_alive() for runner in pool._runners)


def blocked_on(gate: threading.Event) -> runner_threads.Work:
    def work(job: RunnerCall) -> list[Event]:
        gate.wait(20)
        return [Text("late")]

    return work


def test_a_full_pool_reports_that_it_is_busy_and_why() -> None:
    pool, gate = Pool("hello", limit=2), threading.Event()
    for _ in range(2):
        (failed,) = events(lambda call: pool.run(blocked_on(gate), call), call_of(left=0.3))
        assert isinstance(failed, Failed)
    assert pool.stuck == 2
    with pytest.raises(ToolFailed, match="hello is busy: all its 2 threads are in use, 2 of them by abandoned calls"):
        pool.start(blocked_on(gate))
    gate.set()
    until(lambda: alive(pool) == 0)
    assert pool.stuck == 0
    assert events(lambda call: pool.run(blocked_on(gate), call), call_of()) == [Text("late"), Done()]


def test_a_full_pool_of_working_threads_mentions_no_stuck_thread() -> None:
    pool, gate = Pool("hello", limit=1), threading.Event()
    pool.start(blocked_on(gate))
    with pytest.raises(ToolFailed, match="all its 1 threads are in use; try again later"):
        pool.start(blocked_on(gate))
    gate.set()


def test_a_finished_job_cannot_be_abandoned_any_more() -> None:
    pool = Pool("hello")
    job = pool.start(lambda job: [Text("x")])
    assert job.out.get(timeout=BOUND) == [Text("x")]
    for _ in range(100):
        job.runner.abandon(job)
    assert not job.abandoned
    assert events(lambda call: pool.run(lambda job: [Text("y")], call), call_of()) == [Text("y"), Done()]
    assert alive(pool) == 1


def test_an_idle_runner_ends_after_a_while() -> None:
    pool = Pool("hello", patience=0.01)
    events(lambda call: pool.run(lambda job: [], call), call_of())
    until(lambda: alive(pool) == 0)
    assert pool.idle == []
    assert events(lambda call: pool.run(lambda job: [], call), call_of()) == [Done()]


def test_runners_that_retire_lose_no_work() -> None:
    pool = Pool("hello", patience=0.0)
    for _ in range(300):
        assert events(lambda call: pool.run(lambda job: [Text("x")], call), call_of()) == [Text("x"), Done()]


def test_stopping_many_calls_at_random_moments_leaves_no_thread_and_hits_no_other_call() -> None:
    """The stop of one call never reaches the next one on the same thread."""
    pool = Pool("hello")

    def work(job: RunnerCall, length: int) -> list[Event]:
        for n in range(length):
            job.emit(Text(str(n)))
        return []

    def handler(length: int, call: Call) -> Events:
        return pool.run(partial(work, length=length), call)

    for length in list(range(40)) * 5:
        running = activate(partial(handler, length), call_of())
        next(running)
        running.close()
        assert events(lambda call: pool.run(lambda job: [Text("y")], call), call_of()) == [Text("y"), Done()]
    until(lambda: all(runner.job is None or not runner.thread.is_alive() for runner in pool._runners))
    assert pool.stuck == 0


def test_a_helper_thread_of_a_tool_that_is_over_cannot_speak_any_more() -> None:
    pool, ended, stopped = Pool("hello"), threading.Event(), threading.Event()

    def helper(job: RunnerCall) -> None:
        ended.wait(20)
        try:
            job.emit(Text("too late"))
        except Stopped:
            stopped.set()

    def work(job: RunnerCall) -> list[Event]:
        threading.Thread(target=helper, args=(job,)).start()
        job.emit(Text("x"))
        while True:
            sum(range(9))

    running = activate(lambda call: pool.run(work, call), call_of())
    assert next_event(running) == Text("x")
    running.close()
    ended.set()
    assert stopped.wait(20)
