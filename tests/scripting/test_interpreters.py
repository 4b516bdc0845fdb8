"""The pool of interpreters: fair between principals, apart from each other, and whole after a death."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.activation import Call
from patchbay.errors import ToolFailed
from patchbay.events import Event
from patchbay.scripting.interpreters import Interpreter, Interpreters
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
    one.pid = pid_of(one)
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
        one.pid = session.worker_pid
        assert one.pid is not None
        thread = threading.Thread(target=work_endlessly, args=(one, session))
        thread.start()
        until(lambda: one.is_slowed, "the lower priority")
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


def test_a_principal_with_several_long_scripts_gets_slow_processes_and_others_do_not(pool: Interpreters) -> None:
    held = [take(pool, "ann") for _ in range(3)]
    sessions = [one.monty.checkout(limits={"max_feed_duration_secs": BOUND}) for one in held]
    threads = []
    for one, session in zip(held, sessions, strict=True):
        session.__enter__()
        one.pid = session.worker_pid
        threads.append(threading.Thread(target=work_endlessly, args=(one, session)))
        threads[-1].start()
    until(lambda: all(one.is_slowed for one in held), "the lower priorities")
    until(lambda: [state_of(one) for one in held].count("T") == 1, "the one that waits for its turn")
    waiting = next(one for one in held if state_of(one) == "T")
    until(lambda: state_of(waiting) != "T", "its turn")
    assert not take(pool, "ben").is_slowed
    for one in held:
        one.kill()
    for thread in threads:
        thread.join(BOUND)
    for one in held:
        pool.give_back(one, False)
    again = take(pool, "ann")
    assert again.is_slowed
    with again.monty.checkout() as session:
        assert os.getpriority(os.PRIO_PROCESS, session.worker_pid or 0) == 19
        assert session.feed_run("1 + 1") == 2


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
