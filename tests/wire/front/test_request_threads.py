"""Requests run on few threads of the web server, and on further threads when those are taken.

Issue 14, item 2: fewer idle threads that look for work; DESIGN 6 (every queue has a bound).
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

import pytest

from patchbay.wire.front import request_threads
from patchbay.wire.front.request_threads import SPARE_WEB_THREADS, RequestThreads
from tests.wire.front.blocking import Blocking

BOUND = 60.0


@pytest.fixture
def one_on_the_web(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_threads, "MAX_REQUESTS_ON_WEB_THREADS", 1)


def occupy(threads: RequestThreads, work: Blocking) -> threading.Thread:
    """Run work on a thread as those of the web server, and return that thread."""
    web = threading.Thread(target=threads.run, args=(work,), daemon=True)
    web.start()
    assert work.begun.wait(BOUND)
    return web


def test_a_request_runs_on_the_thread_that_brings_it_while_one_is_free() -> None:
    threads = RequestThreads(8)
    found: list[threading.Thread] = []
    for _ in range(100):
        threads.run(lambda: found.append(threading.current_thread()))
    assert set(found) == {threading.current_thread()} and threads.started == 0
    assert threads.web_threads == threads.on_web_threads + SPARE_WEB_THREADS <= 8 + SPARE_WEB_THREADS


@pytest.mark.usefixtures("one_on_the_web")
def test_the_spare_threads_of_the_web_server_hand_requests_over_at_once(blocking: Callable[[], Blocking]) -> None:
    threads = RequestThreads(3)
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
    threads = RequestThreads(1)
    first, second = blocking(), blocking()
    web = occupy(threads, first)
    threads.run(second)
    assert threads.started == 0 and not second.begun.is_set()
    first.end.set()
    assert second.begun.wait(BOUND) and second.thread is web


@pytest.mark.usefixtures("one_on_the_web")
def test_an_error_of_a_request_gives_its_place_on_the_web_servers_threads_back() -> None:
    threads = RequestThreads(3)
    for _ in range(3):
        threads.run(sys.exit)
    found: list[threading.Thread] = []
    threads.run(lambda: found.append(threading.current_thread()))
    assert found == [threading.current_thread()] and threads.started == 0


@pytest.mark.usefixtures("one_on_the_web")
def test_waiting_requests_run_in_the_order_in_which_they_came(blocking: Callable[[], Blocking]) -> None:
    threads = RequestThreads(2)
    occupy(threads, blocking())
    running = blocking()
    threads.run(running)
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
    threads = RequestThreads(1)
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
    threads = RequestThreads(3)
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
def test_a_request_runs_where_it_is_when_the_system_has_no_more_threads(
    blocking: Callable[[], Blocking], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = RequestThreads(3)
    occupy(threads, blocking())

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(request_threads.RequestThread, "start", refuse)
    found: list[threading.Thread] = []
    threads.run(lambda: found.append(threading.current_thread()))
    assert found == [threading.current_thread()] and threads.started == 0
