"""The queues of senders: a sender alone is not limited, and beside others it has a few turns at a time.

Sources: ACCESS section 6 (one principal's flood does not slow down another); issue 16 "Must show".
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from patchbay.wire.front import fair_queue
from patchbay.wire.front.event_loop import EventLoop
from patchbay.wire.front.fair_queue import MAX_TURNS, FairQueue
from patchbay.wire.front.request_threads import RequestThreads
from tests.waiting import BOUND, until
from tests.wire.front.blocking import Blocking

MANY = 12


@pytest.fixture
def queue() -> FairQueue:
    return FairQueue(RequestThreads(64, EventLoop()), EventLoop())


@pytest.fixture
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns and the memory of other senders last as long as the test."""
    monkeypatch.setattr(fair_queue, "TURN_SECONDS", BOUND)
    monkeypatch.setattr(fair_queue, "OTHERS_SECONDS", BOUND)


def send(queue: FairQueue, name: str, work: Callable[[], None]) -> None:
    """Bring a request on a thread of its own, as the web server does."""
    thread = threading.Thread(target=queue.run, args=(name, work), daemon=True)
    thread.start()
    if not isinstance(work, Blocking):
        thread.join(BOUND)


def flood(queue: FairQueue, name: str, made: list[Blocking]) -> int:
    """Bring many requests; return how many have begun when all others wait."""
    for work in made:
        send(queue, name, work)
    until(lambda: queue.waiting + sum(work.begun.is_set() for work in made) == len(made), "all requests")
    return sum(work.begun.is_set() for work in made)


@pytest.mark.usefixtures("long_turns")
def test_a_sender_alone_is_not_limited(queue: FairQueue, blocking: Callable[[], Blocking]) -> None:
    assert flood(queue, "ann", [blocking() for _ in range(MANY)]) == MANY


@pytest.mark.usefixtures("long_turns")
def test_a_sender_beside_others_has_a_few_turns_and_does_not_delay_them(
    queue: FairQueue, blocking: Callable[[], Blocking]
) -> None:
    ben = blocking()
    send(queue, "ben", ben)
    assert ben.begun.wait(BOUND)
    made = [blocking() for _ in range(MANY)]
    assert flood(queue, "ann", made) == MAX_TURNS
    again = blocking()
    send(queue, "ben", again)
    assert again.begun.wait(BOUND), "ben has turns of his own"
    for work in made:
        work.end.set()
    until(lambda: all(work.begun.is_set() for work in made), "the requests of ann, one after the other")
    until(lambda: queue.waiting == 0, "an empty queue")


def test_a_long_request_gives_its_turn_to_the_next(
    queue: FairQueue, blocking: Callable[[], Blocking], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_queue, "OTHERS_SECONDS", BOUND)
    send(queue, "ben", lambda: None)
    made = [blocking() for _ in range(MANY)]
    for work in made:
        send(queue, "ann", work)
    until(lambda: all(work.begun.is_set() for work in made), "all requests, while none has ended")


def test_a_sender_rests_after_its_slice_of_processor_time(
    queue: FairQueue, blocking: Callable[[], Blocking], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_queue, "OTHERS_SECONDS", BOUND)
    monkeypatch.setattr(fair_queue, "TURN_SECONDS", BOUND)
    monkeypatch.setattr(fair_queue, "SLICE_SECONDS", 1e-9)
    monkeypatch.setattr(fair_queue, "REST_FACTOR", 1e9)
    send(queue, "ben", lambda: None)
    made = [blocking() for _ in range(MANY)]
    assert flood(queue, "ann", made) == MAX_TURNS
    first = [work for work in made if work.begun.is_set()]
    for work in first:
        work.end.set()
    late: list[bool] = []
    for number in range(3):
        send(queue, "ben", lambda: late.append(True))
        assert len(late) == number + 1
    until(lambda: not any(sender.turns for sender in queue._senders.values()), "the end of the first requests")
    assert queue.waiting == MANY - MAX_TURNS


def test_a_request_that_fails_gives_its_turn_back(queue: FairQueue) -> None:
    def fail() -> None:
        raise ValueError("an error of a request")

    for name in ("ben", "ann", "ben", "ann", "ann"):
        send(queue, name, fail)
    done: list[bool] = []
    send(queue, "ann", lambda: done.append(True))
    until(lambda: done, "the next request")
    until(lambda: not queue._senders, "no memory of senders without requests")


class Collected:
    """Threads and a loop that only collect the work of requests."""

    def __init__(self) -> None:
        self.works: list[Callable[[], None]] = []

    def run(self, work: Callable[[], None]) -> None:
        self.works.append(work)

    start = run

    def call(self, function: Callable[[], None]) -> None:
        """Ignore the wish for a look at the queues; the test looks itself."""


def test_the_end_of_a_long_request_does_not_remove_later_ones_of_its_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender was removed and is known again while the long request ran."""
    monkeypatch.setattr(fair_queue, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(fair_queue, "OTHERS_SECONDS", BOUND)
    monkeypatch.setattr(fair_queue, "REST_FACTOR", 0)
    begun: Any = Collected()
    queue = FairQueue(begun, begun)
    monkeypatch.setattr(queue, "_tick_later", lambda: None)
    for name in ("ben", *["ann"] * (MAX_TURNS + 1)):
        queue.run(name, lambda: None)
    queue._tick()
    _, long, *short = begun.works
    assert queue.waiting == 0
    for work in short:
        work()
    for _ in range(MAX_TURNS + 1):
        queue.run("ann", lambda: None)
    assert queue.waiting == 1
    long()
    assert queue.waiting == 1
