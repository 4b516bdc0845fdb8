"""The pool of interpreters: fair between principals, apart from each other, and whole after a death."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pydantic_monty import MontyCrashedError

from patchbay.activation import Call
from patchbay.errors import ToolFailed
from patchbay.events import Event
from patchbay.scripting.interpreters import LONG_TURN_SECONDS, Interpreter, Interpreters, next_turns
from tests.waiting import BOUND, until


@pytest.fixture
def pool() -> Iterator[Interpreters]:
    found = Interpreters(limit=4, reserved=1)
    yield found
    found.close()


def call_of(principal: str) -> Call:
    return Call("git", {}, {}, time.monotonic() + BOUND, principal=principal)


def take(pool: Interpreters, principal: str) -> Interpreter:
    """Take a process; fails if there is no place for it."""
    steps = pool.take(call_of(principal))
    try:
        event: Event = next(steps)
    except StopIteration as found:
        process: Interpreter = found.value
        return process
    steps.close()
    raise AssertionError(f"no place for {principal}: {event}")


def pid_of(one: Interpreter) -> int:
    with one.monty.checkout() as session:
        assert session.worker_pid is not None
        return session.worker_pid


def test_a_process_is_kept_for_its_principal_and_never_gets_a_script_of_another(pool: Interpreters) -> None:
    first = take(pool, "ann")
    pool.give_back(first, True)
    other = take(pool, "ben")
    assert other is not first
    assert take(pool, "ann") is first


def test_a_process_that_may_be_harmed_ends(pool: Interpreters) -> None:
    first = take(pool, "ann")
    pid = pid_of(first)
    pool.give_back(first, False)
    until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the process")
    assert take(pool, "ann") is not first


def test_the_last_place_is_for_principals_that_have_few(pool: Interpreters) -> None:
    for _ in range(3):
        take(pool, "ann")
    with pytest.raises(AssertionError, match="no place for ann"):
        take(pool, "ann")
    take(pool, "ben")
    assert pool.count() == 4


def test_the_next_place_goes_to_the_principal_with_the_fewest(pool: Interpreters) -> None:
    held = [take(pool, "ann") for _ in range(3)]
    take(pool, "ben")
    got: list[str] = []
    threads = [threading.Thread(target=wait_for, args=(pool, name, got)) for name in ("ann", "cat")]
    threads[0].start()
    until(lambda: len(pool._waiting) == 1, "the first that waits")
    threads[1].start()
    until(lambda: len(pool._waiting) == 2, "both that wait")
    pool.give_back(held[0], True)
    until(lambda: got, "the next place")
    assert got == ["cat"]
    pool.give_back(held[1], True)
    pool.give_back(held[2], True)
    for thread in threads:
        thread.join(BOUND)
    assert got == ["cat", "ann"]


def wait_for(pool: Interpreters, principal: str, got: list[str]) -> None:
    for _ in pool.take(call_of(principal)):
        pass
    got.append(principal)


def test_a_script_that_is_given_up_while_it_waits_leaves_the_queue(pool: Interpreters) -> None:
    for _ in range(3):
        take(pool, "ann")
    waiting = pool.take(call_of("ann"))
    next(waiting)
    waiting.close()
    assert not pool._waiting and pool.count() == 3


def test_a_process_that_was_killed_is_replaced(pool: Interpreters) -> None:
    one = take(pool, "ann")
    one.begin(pid_of(one))
    one.kill()
    until(lambda: Path(f"/proc/{one.pid}/stat").read_text().split()[2] == "Z", "the end of the process")
    pool.give_back(one, True)
    again = take(pool, "ann")
    with again.monty.checkout() as session:
        assert session.feed_run("1 + 1") == 2


def test_a_process_that_works_for_long_gets_the_lowest_priority_and_is_not_used_for_the_next(
    pool: Interpreters,
) -> None:
    one = take(pool, "ann")
    with one.monty.checkout(limits={"max_feed_duration_secs": BOUND}) as session:
        one.begin(session.worker_pid)
        assert one.pid is not None
        thread = threading.Thread(target=work_endlessly, args=(one, session))
        thread.start()
        until(lambda: one.priority == 19, "the lower priority")
        threads = Path(f"/proc/{one.pid}/task").iterdir()
        assert {os.getpriority(os.PRIO_PROCESS, int(each.name)) for each in threads} == {19}
        one.kill()
        thread.join(BOUND)
    pool.give_back(one, True)
    assert take(pool, "ann") is not one


def work_endlessly(one: Interpreter, session: object) -> None:
    try:
        one.work(lambda: session.feed_run("while True:\n    pass"))  # type: ignore[attr-defined]
    except Exception:
        return


def test_a_principal_with_several_long_scripts_gets_slow_processes_and_others_do_not(
    pool: Interpreters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchbay.scripting.interpreters.SLOW_SECONDS", BOUND)  # a busy machine takes longer
    held = [take(pool, "ann") for _ in range(3)]
    sessions = [one.monty.checkout(limits={"max_feed_duration_secs": BOUND}) for one in held]
    threads = []
    for one, session in zip(held, sessions, strict=True):
        session.__enter__()
        one.begin(session.worker_pid)
        threads.append(threading.Thread(target=work_endlessly, args=(one, session)))
        threads[-1].start()
    until(lambda: all(one.priority == 19 for one in held), "the lower priorities")
    until(lambda: [state_of(one) for one in held].count("T") == 1, "the one that waits for its turn")
    waiting = next(one for one in held if state_of(one) == "T")
    until(lambda: state_of(waiting) != "T", "its turn")
    assert take(pool, "ben").priority == 0
    for one in held:
        one.kill()
    for thread in threads:
        thread.join(BOUND)
    for one in held:
        pool.give_back(one, False)
    again = take(pool, "ann")
    assert again.priority == 10
    with again.monty.checkout() as session:
        assert os.getpriority(os.PRIO_PROCESS, session.worker_pid or 0) == lowered(10)
        assert session.feed_run("1 + 1") == 2


def lowered(steps: int) -> int:
    """The priority of the tests, lowered by so many steps."""
    return min(os.getpriority(os.PRIO_PROCESS, 0) + steps, 19)


def state_of(one: Interpreter) -> str:
    """The state of a process; T for one that is stopped."""
    return Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_closed_pool_runs_nothing(pool: Interpreters) -> None:
    pid = pid_of(one := take(pool, "ann"))
    pool.give_back(one, True)
    pool.close()
    until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the process")
    with pytest.raises(ToolFailed, match="the hub is ending"):
        take(pool, "ann")


def test_a_process_whose_turn_is_over_is_not_stopped(pool: Interpreters, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch looks, the turn ends, and only then comes the signal."""
    sent: list[int] = []
    one = take(pool, "ann")
    one.begin(pid_of(one))
    seen: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(number))
    one.work(lambda: seen.append(one.turn))
    one.stop(seen[0])
    one.work(lambda: one.stop(seen[0]))
    assert sent == []
    one.work(lambda: one.stop(one.turn))
    assert sent == [signal.SIGSTOP, signal.SIGCONT]


def test_a_process_that_was_stopped_in_its_turn_goes_on_when_the_turn_is_over(pool: Interpreters) -> None:
    one = take(pool, "ann")
    one.begin(pid_of(one))

    def end_stopped() -> None:
        one.stop(one.turn)
        until(lambda: state_of(one) == "T", "the stop")

    one.work(end_stopped)
    until(lambda: state_of(one) != "T", "the process that goes on")
    pool.give_back(one, True)
    again = take(pool, "ann")
    assert again is one and pid_of(again)


def test_a_process_that_is_given_back_in_its_turn_goes_on(pool: Interpreters) -> None:
    one = take(pool, "ann")
    pid = pid_of(one)
    one.begin(pid)
    one.turn = 1
    one.stop(1)
    until(lambda: state_of(one) == "T", "the stop")
    one.rest()
    one.last_pid, one.pid = None, pid
    until(lambda: state_of(one) != "T", "the process that goes on")


def test_principals_take_turns_first_and_then_their_processes() -> None:
    many: list[Any] = [LongOne("ann") for _ in range(20)]
    few: list[Any] = [LongOne("ben"), LongOne("cat")]
    turns: Counter[Any] = Counter()
    permissions = count(1)
    for _ in range(300):
        for one in next_turns([*many, *few]):
            one.served = next(permissions)
            one.worked += 0.1
            turns[one] += 1
    assert [turns[one] for one in few] == [200, 200]
    assert [turns[one] for one in many] == [10] * 20
    new: Any = LongOne("ann")
    assert new in next_turns([*many, new])


class LongOne:
    """A process that works for long."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.served = 0
        self.worked = 0.0


def test_the_time_in_which_a_process_is_stopped_does_not_count(pool: Interpreters) -> None:
    one = take(pool, "ann")
    with one.monty.checkout(limits={"max_feed_duration_secs": BOUND}) as session:
        one.begin(session.worker_pid)
        code = "total = 0\nfor number in range(10000):\n    total += number\ntotal"
        assert one.work(lambda: session.feed_run(code), seconds=1.0) == sum(range(10000))
        rest = 2 * LONG_TURN_SECONDS

        def wait() -> None:
            one.stop(one.turn)
            threading.Event().wait(rest)
            one.end_if_over()

        one.work(wait, seconds=LONG_TURN_SECONDS)
        assert not one.reached and one.spent < LONG_TURN_SECONDS


def test_a_process_that_has_used_its_time_ends(pool: Interpreters) -> None:
    for seconds, until_time, limit in [(0.2, BOUND, "running_seconds"), (BOUND, 0.2, "wall_seconds")]:
        one = take(pool, "ann")
        limits: Any = {"max_feed_duration_secs": BOUND}
        with pytest.raises(MontyCrashedError), one.monty.checkout(limits=limits) as session:
            one.begin(session.worker_pid)
            end = time.monotonic() + until_time
            one.work(lambda: session.feed_run("while True:\n    pass"), seconds, end)
        assert one.reached == limit
        pool.give_back(one, False)
