"""One caller answers and cancels its own tasks without end: each would be an entry, and the entry has the answer.

Source: CWE-770 (allocation of resources without limits).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.topics import TASK_CHANGES
from tests.attacks.leftovers import left, two_nodes
from tests.databases import PostgresqlServer
from tests.hubs import Hub
from tests.protocol.tasks.jobs import FILES, accept, begin, ended, questions, request_task, update

ATTEMPTS = 30
ANSWER_BYTES = 10_000
LARGE = "x" * ANSWER_BYTES


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, FILES, store="sqlite")
    yield hub
    hub.close()


def test_answers_to_a_task_leave_one_for_each_question(hub: Hub) -> None:
    """48.4: 90 answers of 10 kB leave the two that the tool asked for."""
    task = begin(hub, "asks_both")
    questions(hub, task, "a", "b")
    before = left(hub.catalogue.store, TASK_CHANGES)
    for number in range(ATTEMPTS):
        update(hub, task, **{f"other{number}": accept(LARGE)})
        update(hub, task, a={"action": "shout", "content": {"v": LARGE}})
    assert left(hub.catalogue.store, TASK_CHANGES) == before
    update(hub, task, a=accept(LARGE))
    for _ in range(ATTEMPTS):
        update(hub, task, a=accept(LARGE))
    assert left(hub.catalogue.store, TASK_CHANGES).entries == before.entries + 1
    update(hub, task, b=accept("x"))
    ended(hub, task)
    after = left(hub.catalogue.store, TASK_CHANGES)
    for _ in range(ATTEMPTS):
        update(hub, task, a=accept(LARGE), b=accept(LARGE))
    assert left(hub.catalogue.store, TASK_CHANGES) == after


def test_a_task_that_is_cancelled_again_and_again_has_one_entry_of_it(hub: Hub) -> None:
    """48.4"""
    task = begin(hub, "blind")
    before = left(hub.catalogue.store, TASK_CHANGES).entries
    for _ in range(ATTEMPTS):
        request_task(hub, "cancel", task)
    assert ended(hub, task)["status"] == "cancelled"
    for _ in range(ATTEMPTS):
        request_task(hub, "cancel", task)
    assert left(hub.catalogue.store, TASK_CHANGES).entries == before + 2  # the wish and the end


def test_two_nodes_store_an_answer_once(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    """48.4: the answers reach a task of the other node."""
    with two_nodes(tmp_path, postgresql.new_schema(), files=FILES, access="personal") as hubs:
        task = begin(hubs[0], "asks")
        questions(hubs[1], task, "same")
        before = left(hubs[0].catalogue.store, TASK_CHANGES).entries
        for number in range(ATTEMPTS):
            update(hubs[number % 2], task, **{f"other{number}": accept(LARGE)})
        assert left(hubs[0].catalogue.store, TASK_CHANGES).entries == before
        request_task(hubs[1], "cancel", task)
