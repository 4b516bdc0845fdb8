"""What is remembered of tasks: across processes, restarts and the end of the hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.protocol.tasks.records import TaskStore
from patchbay.protocol.tasks.tasks import GONE, STOPPED
from patchbay.stores.memory import MemoryStore
from tests.hubs import Hub
from tests.protocol.tasks.jobs import FILES, accept, begin, call, ended, get, questions, request_task, update
from tests.waiting import until


@pytest.fixture
def ledger() -> Iterator[TaskStore]:
    store = MemoryStore()
    yield TaskStore(store)
    store.close()


@pytest.mark.slow
def test_a_task_outlives_a_restart_of_the_hub_and_one_that_ran_ends_as_failed(tmp_path: Path) -> None:
    """A process that is gone takes its tasks along: they are failed with a reason, never silently "working"."""
    hub = Hub(tmp_path, FILES, store="sqlite")
    done, running, stopping = begin(hub, "work"), begin(hub, "work", seconds=60), begin(hub, "blind")
    kept = ended(hub, done)
    hub.close()
    again = Hub(tmp_path, FILES, store="sqlite")
    try:
        assert get(again, done) == kept
        request_task(again, "cancel", stopping)
        lost = ended(again, running)
        assert (lost["status"], lost["error"]["code"]) == ("failed", -32603)
        assert lost["error"]["message"] == lost["statusMessage"] and lost["statusMessage"] in (GONE, STOPPED)
        assert ended(again, stopping)["status"] in ("cancelled", "failed")
    finally:
        again.close()


@pytest.mark.slow
def test_two_processes_serve_the_same_tasks(tmp_path: Path) -> None:
    """What one runs, the other shows, answers and cancels."""
    one, two = Hub(tmp_path, FILES, store="sqlite"), Hub(tmp_path, FILES, store="sqlite")
    try:
        id = begin(one, "asks_both")
        questions(two, id, "a", "b")
        update(two, id, a=accept("1"))
        assert list(get(one, id)["inputRequests"]) == ["b"]
        update(two, id, b=accept("2"))
        assert ended(two, id)["result"]["content"][0]["text"] == "12"
        other = begin(one, "work", seconds=60)
        request_task(two, "cancel", other)
        assert ended(one, other)["status"] == "cancelled"
    finally:
        one.close()
        two.close()


def test_a_stopping_hub_gives_tasks_their_time_then_fails_them(tmp_path: Path) -> None:
    hub = Hub(tmp_path, FILES, drain=0.5)
    try:
        short, long = begin(hub, "work", seconds=0.2), begin(hub, "work", seconds=60)
        hub.app.parts.drain.begin()
        assert ended(hub, short)["status"] == "completed"
        lost = ended(hub, long)
        assert (lost["status"], lost["statusMessage"]) == ("failed", STOPPED)
        assert call(hub, "work").text.startswith("the hub is stopping")
    finally:
        hub.close()


def test_the_first_end_stands(ledger: TaskStore) -> None:
    task = ledger.make("local", "jobs", 60)
    ledger.end(task, "failed", error={"code": 1, "message": "x"}, message="x")
    ledger.end(task, "completed", result={"content": []})
    seen = ledger.read(task.id)
    assert seen is not None and (seen.status, seen.outcome) == ("failed", {"error": {"code": 1, "message": "x"}})


def test_a_task_is_forgotten_when_its_time_is_over(ledger: TaskStore) -> None:
    task = ledger.make("local", "jobs", 0.05)
    until(lambda: ledger.read(task.id) is None, "the end of its time")
