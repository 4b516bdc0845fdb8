"""Workers that hang are ended and replaced (34.7)."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from patchbay.serving import heartbeats
from patchbay.serving.heartbeats import Heartbeats, end_hung_workers
from tests.serving.running import Hub, marks, running
from tests.waiting import BOUND, until

KEEPS_THE_INTERPRETER = '''
import ctypes
from pathlib import Path

def wait_in_c(mark: str) -> str:
    """Wait for ever for a lock, in C code that keeps the interpreter for itself."""
    Path(mark).touch()
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)
    return "never"
'''

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@contextmanager
def calling(hub: Hub, mark: Path) -> Iterator[http.client.HTTPConnection]:
    """A connection that has called the tool."""
    call = {"method": "tools/call", "params": {"name": "wait_in_c", "arguments": {"mark": str(mark)}}}
    with closing(http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)) as connection:
        connection.request("POST", "/mcp/hanging", json.dumps({"jsonrpc": "2.0", "id": 1, **call}), HEADERS)
        yield connection


def ask_health(hub: Hub) -> tuple[int, str]:
    """What /healthz answers; 0 where the connection belongs to a hung worker."""
    with closing(http.client.HTTPConnection("127.0.0.1", hub.port, timeout=0.5)) as connection:
        try:
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""


def wait_until_told(hub: Hub) -> str:
    """What a worker tells on /healthz of another one."""
    told: list[str] = []

    def is_told() -> bool:
        status, sentence = ask_health(hub)
        told.append(sentence)
        return status == 503

    until(is_told, "a worker tells of the other one")
    return told[-1]


@pytest.mark.process
def test_a_tool_that_keeps_the_interpreter_ends_its_worker_and_is_named_in_the_log(tmp_path: Path) -> None:
    """34.7: the other worker tells it, the call ends, and Python writes the function that hangs."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "hanging.py").write_text(KEEPS_THE_INTERPRETER)
    mark = marks(tmp_path) / "called"
    with running(tmp_path, "--workers", "2", "--isolation", "inline") as hub, calling(hub, mark) as connection:
        until(mark.exists, "the call runs")
        before = hub.workers()
        told = wait_until_told(hub)
        [hung] = [process for process in before if f"not responding: worker process {process} for " in told]
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            connection.getresponse().read()
        assert f"worker process {hung} has not responded for" in hub.line_with("has not responded")
        assert hub.line_with("in wait_in_c")
        until(lambda: ask_health(hub) == (200, "alive\n"), "every worker responds")
        assert hung not in hub.workers()


@pytest.mark.full
@pytest.mark.process
def test_a_stopped_worker_is_replaced(tmp_path: Path) -> None:
    """34.7."""
    with running(tmp_path, "--workers", "2") as hub:
        stopped = min(hub.workers())
        os.kill(stopped, signal.SIGSTOP)
        assert f"not responding: worker process {stopped} for " in wait_until_told(hub)
        until(lambda: len(hub.workers() - {stopped}) == 2, "the worker is replaced")
        assert stopped not in hub.workers()


def test_each_worker_gets_its_full_time_again_after_the_whole_machine_was_asleep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """34.7: a late check proves nothing about the workers. The clock is the fault that cannot be caused otherwise."""
    beats = Heartbeats(1)
    beats._processes[0], beats._times[0] = 4711, 1000.0
    clock = iter([1000.0, 1000.5, 1000.5, 5000.0, 5000.0, 5000.5, 5000.5])
    ended: list[int] = []
    monkeypatch.setattr(heartbeats, "_end", lambda process, silence: ended.append(process))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(heartbeats, "LOOK_SECONDS", 0.0)
    checks = iter([False] * 3 + [True])
    end_hung_workers(beats, lambda: next(checks), lambda: {4711})
    assert ended == []


def test_only_workers_of_the_hub_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """34.7: the number of a worker that has ended may belong to another program."""
    beats = Heartbeats(1)
    beats._processes[0], beats._times[0] = 4711, 0.0
    ended: list[int] = []
    monkeypatch.setattr(heartbeats, "_end", lambda process, silence: ended.append(process))
    monkeypatch.setattr(heartbeats, "HUNG_SECONDS", 0.0)
    for running_now in (set[int](), {4711}):
        checks = iter([False, True])
        end_hung_workers(beats, partial(next, checks), partial(set, running_now))
    assert ended == [4711]


def test_a_place_in_use_is_not_given_to_another_worker() -> None:
    """34.7: an old worker may still end while its replacement begins."""
    beats = Heartbeats(2)
    first, second = beats.take_place(), beats.take_place()
    beats._processes[first] = 1
    beats._processes[second] = 2
    third, fourth = beats.take_place(), beats.take_place()
    assert len({first, second, third, fourth}) == 4
    beats._processes[third] = 3
    beats.clear(second)
    assert beats.take_place() not in (first, third)
