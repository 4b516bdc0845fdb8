"""The drain of a worker (THREATS M5, X22)."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from patchbay.serving.drain import Drain
from tests.waiting import BOUND


def test_before_it_begins_running_calls_have_all_the_time() -> None:
    drain = Drain(5)
    assert (drain.is_draining, drain.over, drain.seconds_left()) == (False, False, float("inf"))
    assert drain.wait(0) is False


def test_a_drain_ends_readiness_and_starts_the_clock() -> None:
    drain = Drain(50)
    drain.begin()
    assert drain.is_draining
    assert not drain.over
    assert 40 < drain.seconds_left() <= 50
    drain.seconds = 5000
    drain.begin()
    assert drain.seconds_left() <= 50, "a second signal gives no more time"


def test_it_is_over_when_the_time_has_passed() -> None:
    drain = Drain(0)
    drain.begin()
    assert drain.over


def test_a_waiting_stream_wakes_up() -> None:
    drain, woken = Drain(), threading.Event()
    waiter = threading.Thread(target=lambda: woken.set() if drain.wait(BOUND) else None)
    waiter.start()
    drain.begin()
    waiter.join(BOUND)
    assert woken.is_set()


def test_callbacks_run_once_in_order_and_late_ones_at_once() -> None:
    drain, called = Drain(), list[str]()
    drain.on_begin(lambda: called.append("first"))
    drain.on_begin(lambda: called.append("second"))
    drain.begin()
    drain.begin()
    drain.on_begin(lambda: called.append("late"))
    assert called == ["first", "second", "late"]


PROGRAM = """
import os, signal, sys
from patchbay.serving.drain import Drain
drain = Drain()
drain.watch_signals()
signal.signal(signal.{name}, lambda number, frame: None)
os.kill(os.getpid(), signal.{name})
sys.exit(0 if drain.wait({bound}) else 1)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_begins_it_whichever_handler_is_installed_later(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(name=name, bound=BOUND)], check=False)
    assert done.returncode == 0
