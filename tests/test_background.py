"""Work on a thread of its own: the rounds of a loop, its pauses, failures and end, and a function that runs once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from patchbay.background import BackgroundLoop, run_in_background
from tests.waiting import BOUND, until

LONG_SECONDS = 3600.0


class Rounds:
    """Counts its rounds; each one returns what `pause` returns, or raises what it raises."""

    def __init__(self, pause: Callable[[int], float | None]) -> None:
        self.count = 0
        self.threads: list[threading.Thread] = []
        self._pause = pause

    def __call__(self) -> float | None:
        self.count += 1
        self.threads.append(threading.current_thread())
        return self._pause(self.count)


def test_rounds_follow_each_other_after_the_pause_that_each_returns() -> None:
    rounds = Rounds(lambda number: 0.0 if number < 3 else LONG_SECONDS)
    loop = BackgroundLoop("counting", rounds, "no round")
    assert loop.start()
    until(lambda: rounds.count == 3)
    loop.close(BOUND)
    assert rounds.count == 3
    assert {(one.name, one.daemon) for one in rounds.threads} == {("counting", True)}


def test_a_woken_loop_does_not_wait_for_the_end_of_its_pause() -> None:
    rounds = Rounds(lambda _: LONG_SECONDS)
    loop = BackgroundLoop("woken", rounds, "no round")
    loop.start()
    until(lambda: rounds.count == 1)
    loop.wake()
    until(lambda: rounds.count == 2)
    loop.close(BOUND)


def test_a_loop_that_is_woken_during_a_round_runs_once_more() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def run_round(number: int) -> float:
        begun.set()
        go_on.wait(BOUND if number == 1 else 0)
        return LONG_SECONDS

    rounds = Rounds(run_round)
    loop = BackgroundLoop("woken early", rounds, "no round")
    loop.start()
    assert begun.wait(BOUND)
    loop.wake()
    go_on.set()
    until(lambda: rounds.count == 2)
    loop.close(BOUND)


def test_a_failed_round_is_logged_and_the_next_one_follows(caplog: pytest.LogCaptureFixture) -> None:
    def run_round(number: int) -> float:
        if number == 1:
            raise ValueError("broken once")
        return LONG_SECONDS

    rounds = Rounds(run_round)
    loop = BackgroundLoop("failing", rounds, "the work waits", retry_seconds=0.0)
    loop.start()
    until(lambda: rounds.count == 2)
    loop.close(BOUND)
    (record,) = [one for one in caplog.records if one.name == "patchbay.background"]
    assert record.getMessage() == "the work waits"
    assert record.exc_info is not None and str(record.exc_info[1]) == "broken once"


def test_the_first_round_waits_for_the_first_pause() -> None:
    rounds = Rounds(lambda _: LONG_SECONDS)
    loop = BackgroundLoop("late", rounds, "no round", first_after=LONG_SECONDS)
    loop.start()
    assert rounds.count == 0
    loop.wake()
    until(lambda: rounds.count == 1)
    loop.close(BOUND)


def test_a_started_loop_starts_no_second_thread() -> None:
    rounds = Rounds(lambda _: LONG_SECONDS)
    loop = BackgroundLoop("once", rounds, "no round")
    assert [loop.start(), loop.start()] == [True, False]
    loop.close(BOUND)
    assert len(set(rounds.threads)) <= 1


def test_a_stopped_loop_does_not_start() -> None:
    rounds = Rounds(lambda _: LONG_SECONDS)
    loop = BackgroundLoop("stopped", rounds, "no round")
    loop.close(BOUND)
    assert not loop.start()
    assert not loop.is_started
    assert rounds.count == 0


def test_a_loop_that_ended_itself_starts_on_a_new_thread() -> None:
    rounds = Rounds(lambda _: None)
    loop = BackgroundLoop("ending", rounds, "no round")
    loop.start()
    until(lambda: not loop.is_started)
    assert loop.start()
    until(lambda: rounds.count == 2)
    until(lambda: not loop.is_started)
    assert len(set(rounds.threads)) == 2


def test_a_start_during_the_last_round_is_not_lost() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def run_round(number: int) -> float | None:
        if number == 1:
            begun.set()
            go_on.wait(BOUND)
        return None

    rounds = Rounds(run_round)
    loop = BackgroundLoop("ending", rounds, "no round")
    loop.start()
    assert begun.wait(BOUND)
    assert not loop.start()
    go_on.set()
    until(lambda: rounds.count == 2)
    until(lambda: not loop.is_started)
    assert rounds.count == 2


def test_the_end_runs_once_on_the_thread_also_after_it_was_stopped_from_a_round() -> None:
    ends: list[threading.Thread] = []
    rounds = Rounds(lambda _: stop())
    loop = BackgroundLoop("own end", rounds, "no round", finish=lambda: ends.append(threading.current_thread()))

    def stop() -> float:
        loop.close(BOUND)
        return 0.0

    loop.start()
    until(lambda: ends)
    loop.join(BOUND)
    assert ends == rounds.threads


def test_a_failure_of_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("not closed")

    loop = BackgroundLoop("bad end", Rounds(lambda _: LONG_SECONDS), "no round", finish=fail)
    loop.start()
    loop.close(BOUND)
    assert [one.getMessage() for one in caplog.records if one.name == "patchbay.background"] == [
        "bad end: the end of the thread failed"
    ]


def test_a_function_runs_once_on_a_daemon_thread_with_its_name() -> None:
    got: list[tuple[object, str, bool]] = []

    def note(value: object) -> None:
        got.append((value, threading.current_thread().name, threading.current_thread().daemon))

    run_in_background("one call", note, 7)
    until(lambda: got)
    assert got == [(7, "one call", True)]


def test_a_failure_of_a_function_in_the_background_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("broken")

    run_in_background("one call", fail)
    until(lambda: [one for one in caplog.records if one.name == "patchbay.background"])
    assert caplog.records[-1].getMessage() == "the thread one call failed"
