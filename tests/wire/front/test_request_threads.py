"""Requests run on few threads of the web server, and on further threads when those that run wait for something.

Issue 14, item 2: fewer idle threads that look for work; DESIGN 6 (every queue has a bound).
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

import pytest

from patchbay.wire.front import request_threads
from patchbay.wire.front.event_loop import EventLoop
from patchbay.wire.front.request_threads import MAX_BUSY_REQUESTS, SPARE_WEB_THREADS, RequestThreads
from tests.waiting import until
from tests.wire.front.blocking import Blocking

BOUND = 60.0


@pytest.fixture
def one_on_the_web(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_threads, "MAX_BUSY_REQUESTS", 1)


def occupy(threads: RequestThreads, work: Blocking) -> threading.Thread:
    """Run work on a thread as those of the web server, and return that thread."""
    web = threading.Thread(target=threads.run, args=(work,), daemon=True)
    web.start()
    assert work.begun.wait(BOUND)
    return web


def test_a_request_runs_on_the_thread_that_brings_it_while_one_is_free() -> None:
    threads = RequestThreads(8, EventLoop())
    found: list[threading.Thread] = []
    for _ in range(100):
        threads.run(lambda: found.append(threading.current_thread()))
    assert set(found) == {threading.current_thread()} and threads.started == 0
    assert threads.web_threads == threads.on_web_threads + SPARE_WEB_THREADS <= 8 + SPARE_WEB_THREADS


@pytest.mark.usefixtures("one_on_the_web")
def test_requests_that_wait_for_something_are_joined_by_the_next_ones_on_further_threads(
    blocking: Callable[[], Blocking],
) -> None:
    threads = RequestThreads(3, EventLoop())
    first, second, third, fourth = blocking(), blocking(), blocking(), blocking()
    web = occupy(threads, first)
    for each in (second, third):
        threads.run(each)
        assert each.begun.wait(BOUND) and each.thread not in (web, threading.current_thread())
    threads.run(fourth)
    assert threads.started == 2 and not fourth.begun.is_set(), "three run, which is the limit"
    third.end.set()
    assert fourth.begun.wait(BOUND) and fourth.thread is third.thread
    first.end.set()
    web.join(BOUND)
    here = blocking()
    here.end.set()
    threads.run(here)
    assert here.thread is threading.current_thread(), "the place on the web server's threads is free again"


@pytest.mark.usefixtures("one_on_the_web")
def test_the_web_servers_thread_runs_what_waits_when_there_is_no_other(blocking: Callable[[], Blocking]) -> None:
    threads = RequestThreads(1, EventLoop())
    first, second = blocking(), blocking()
    web = occupy(threads, first)
    threads.run(second)
    assert threads.started == 0 and not second.begun.is_set()
    first.end.set()
    assert second.begun.wait(BOUND) and second.thread is web


@pytest.mark.usefixtures("one_on_the_web")
def test_an_error_of_a_request_gives_its_place_on_the_web_servers_threads_back() -> None:
    threads = RequestThreads(3, EventLoop())
    for _ in range(3):
        threads.run(sys.exit)
    found: list[threading.Thread] = []
    threads.run(lambda: found.append(threading.current_thread()))
    assert found == [threading.current_thread()] and threads.started == 0


@pytest.mark.usefixtures("one_on_the_web")
def test_waiting_requests_run_in_the_order_in_which_they_came(blocking: Callable[[], Blocking]) -> None:
    threads = RequestThreads(2, EventLoop())
    occupy(threads, blocking())
    running = blocking()
    threads.run(running)
    assert running.begun.wait(BOUND)
    order: list[int] = []
    last = threading.Event()
    for number in range(20):
        threads.run(lambda number=number: order.append(number))  # type: ignore[misc]
    threads.run(last.set)
    running.end.set()
    assert last.wait(BOUND) and order == [*range(20)]


@pytest.mark.usefixtures("one_on_the_web")
def test_a_waiting_request_runs_on_a_thread_of_the_web_server_that_becomes_free(
    blocking: Callable[[], Blocking], caplog: pytest.LogCaptureFixture
) -> None:
    """On a machine with many processors there are no further threads at all."""
    threads = RequestThreads(1, EventLoop())
    first, last = blocking(), blocking()
    web = occupy(threads, first)

    def fail() -> None:
        raise ValueError("broken")

    with caplog.at_level(logging.ERROR):
        threads.run(fail)
        threads.run(last)
        assert threads.started == 0 and not last.begun.is_set()
        first.end.set()
        assert last.begun.wait(BOUND) and last.thread is web
    assert "a request failed in the front" in caplog.text
    last.end.set()
    web.join(BOUND)
    found: list[threading.Thread] = []
    threads.run(lambda: found.append(threading.current_thread()))
    assert found == [threading.current_thread()], "the place is free again"


@pytest.mark.usefixtures("one_on_the_web")
def test_an_idle_thread_gets_the_next_request_survives_an_error_and_ends_after_a_while(
    blocking: Callable[[], Blocking], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    threads = RequestThreads(3, EventLoop())
    occupy(threads, blocking())
    monkeypatch.setattr(request_threads, "IDLE_SECONDS", BOUND)
    first = blocking()
    threads.run(first)
    assert first.begun.wait(BOUND) and isinstance(first.thread, request_threads.RequestThread)
    done = threading.Event()

    def fail() -> None:
        done.set()
        raise ValueError("broken")

    occupied = blocking()
    threads.run(occupied)
    assert occupied.begun.wait(BOUND)
    with caplog.at_level(logging.ERROR):
        threads.run(fail)
        first.end.set()
        assert done.wait(BOUND)
        after = blocking()
        threads.run(after)
        assert after.begun.wait(BOUND) and after.thread is first.thread
    assert "a request failed in the front" in caplog.text
    monkeypatch.setattr(request_threads, "IDLE_SECONDS", 0.01)
    for each in (after, occupied):
        each.end.set()
        assert each.thread is not None
        each.thread.join(BOUND)
    assert threads.started == 0
    again = blocking()
    threads.run(again)
    assert again.begun.wait(BOUND) and threads.started == 1


@pytest.mark.usefixtures("one_on_the_web")
def test_a_request_waits_for_those_that_run_when_the_system_has_no_more_threads(
    blocking: Callable[[], Blocking], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = RequestThreads(3, EventLoop())
    first, second = blocking(), blocking()
    web = occupy(threads, first)
    refused = threading.Event()

    def refuse(_: threading.Thread) -> None:
        refused.set()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(request_threads.RequestThread, "start", refuse)
    threads.run(second)
    assert refused.wait(BOUND) and not second.begun.is_set()
    first.end.set()
    assert second.begun.wait(BOUND) and second.thread is web
    second.end.set()
    web.join(BOUND)
    found: list[threading.Thread] = []
    threads.start(lambda: found.append(threading.current_thread()))
    assert found == [threading.current_thread()] and threads.started == 0, "nothing runs that could take it"


class Load:
    """Ten threads of the web server that bring quick requests until the end; `most` is how many ran at once."""

    def __init__(self, threads: RequestThreads) -> None:
        self.most = self.done = 0
        self._running = 0
        self._threads = threads
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._bringing = [threading.Thread(target=self._bring, daemon=True) for _ in range(10)]
        for each in self._bringing:
            each.start()

    def end(self) -> None:
        self._ending.set()
        for each in self._bringing:
            each.join(BOUND)

    def _bring(self) -> None:
        while not self._ending.is_set():
            self._threads.run(self._work)

    def _work(self) -> None:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        sum(range(2000))
        with self._lock:
            self._running -= 1
            self.done += 1


@pytest.fixture
def all_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests count as quick and the process as busy, whatever else this machine does, if one has ended."""
    monkeypatch.setattr(request_threads, "BUSY_SHARE", 0.0)
    monkeypatch.setattr(request_threads, "QUICK_SECONDS", BOUND)
    monkeypatch.setattr(request_threads, "LOOK_SECONDS", 0.25)


@pytest.mark.usefixtures("all_quick")
def test_quick_requests_that_use_the_processor_run_few_at_a_time() -> None:
    load = Load(RequestThreads(50, EventLoop()))
    until(lambda: load.done > 500, "many requests")
    load.end()
    assert 1 <= load.most <= MAX_BUSY_REQUESTS


def raise_limit(threads: RequestThreads, blocking: Callable[[], Blocking]) -> None:
    """Have twenty requests wait at the same time, and end."""
    many = [blocking() for _ in range(20)]
    for each in many:
        threading.Thread(target=threads.run, args=(each,), daemon=True).start()
    assert all(each.begun.wait(BOUND) for each in many) and threads.limit >= 20
    for each in many:
        each.end.set()


def test_the_limit_rises_while_requests_wait_and_falls_when_they_are_quick(
    blocking: Callable[[], Blocking], request: pytest.FixtureRequest
) -> None:
    threads = RequestThreads(50, EventLoop())
    raise_limit(threads, blocking)
    request.getfixturevalue("all_quick")
    load = Load(threads)
    until(lambda: threads.limit == MAX_BUSY_REQUESTS, "the limit falls")
    load.end()


def test_one_look_lets_at_most_twice_as_many_run(
    blocking: Callable[[], Blocking], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that another program kept from the processor looks idle once; its requests would wait for each other."""
    threads = RequestThreads(50, EventLoop())
    monkeypatch.setattr(request_threads, "LOOK_SECONDS", BOUND)
    many = [blocking() for _ in range(20)]
    for each in many:
        threading.Thread(target=threads.run, args=(each,), daemon=True).start()
    until(
        lambda: (
            sum(each.begun.is_set() for each in many) == MAX_BUSY_REQUESTS and threads.waiting == 20 - MAX_BUSY_REQUESTS
        ),
        "a full queue",
    )
    threads.loop.call(threads.look)
    until(lambda: sum(each.begun.is_set() for each in many) == 2 * MAX_BUSY_REQUESTS, "twice as many")
    assert (threads.limit, threads.waiting) == (2 * MAX_BUSY_REQUESTS, 20 - 2 * MAX_BUSY_REQUESTS)
    for each in many:
        each.end.set()


def test_the_limit_falls_while_the_processor_is_used_up(
    blocking: Callable[[], Blocking], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = RequestThreads(50, EventLoop())
    raise_limit(threads, blocking)
    monkeypatch.setattr(request_threads, "QUICK_SECONDS", 0.0)
    monkeypatch.setattr(request_threads, "FULL_SHARE", 0.0)
    load = Load(threads)
    until(lambda: threads.limit == MAX_BUSY_REQUESTS, "the limit falls")
    load.end()
