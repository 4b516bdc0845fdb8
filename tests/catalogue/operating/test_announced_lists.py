"""A client that was notified of a change lists the change, whichever worker of the hub it reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.catalogue.operating import announced_lists
from patchbay.catalogue.operating.announced_lists import AnnouncedLists
from patchbay.topics import CHANGED, CHANGES, LISTS
from tests.hubs import Hub
from tests.waiting import BOUND, until

CHANGED_TIMES = 5
"""How often the lists change: each time, one of two workers is later by up to the poll of the bus."""


def source(number: int) -> str:
    return f'def tool_{number}() -> str:\n    """A tool."""\n    return "{number}"\n'


@pytest.mark.parametrize("address", ["moving", ""], ids=["one server", "all servers as one"])
def test_a_worker_lists_what_another_worker_has_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Issue 14, must show 3: a later worker would answer with the old list, which the client then keeps."""
    monkeypatch.setattr(announced_lists, "WAIT_SECONDS", BOUND)
    workers = [Hub(tmp_path, {"moving.py": source(0)}, store="sqlite", workers=2) for _ in range(2)]
    journal = workers[0].catalogue.store.journal
    try:
        for number in range(1, CHANGED_TIMES + 1):
            before = journal.last(f"{CHANGES}moving")
            (tmp_path / "servers" / "moving.py").write_text(source(number))
            until(lambda before=before: journal.last(f"{CHANGES}moving") > before, "the change is announced")  # type: ignore[misc]
            for worker in workers:
                tools = worker.modern(address, "tools/list").result["tools"]
                assert [each["name"].rpartition("tool_")[2] for each in tools if "tool_" in each["name"]] == [
                    f"{number}"
                ]
    finally:
        for worker in workers:
            worker.close()


def test_requests_wait_once_for_lists_that_this_worker_does_not_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose mounted server is away keeps its own lists: an announcement must not delay each request."""
    hub = Hub(tmp_path, {"moving.py": source(0)}, store="sqlite")
    try:
        store = hub.catalogue.store
        announced = AnnouncedLists(hub.catalogue)
        store.names.move({f"{LISTS}moving": store.blobs.put(b"the lists of another worker")}, "test", "another worker")
        store.journal.append(f"{CHANGES}moving", b'{"kinds": ["tools"], "server": "moving"}', 600)
        monkeypatch.setattr(announced_lists, "WAIT_SECONDS", 0.05)
        announced.wait("moving")
        monkeypatch.setattr(announced_lists, "WAIT_SECONDS", 3600.0)
        announced.wait("moving")
    finally:
        hub.close()


def test_calls_follow_the_bus_and_read_the_journal_only_after_a_message_or_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.8: a call makes no query on its way; the journal is read without a message too, because the bus may be cut."""
    hub = Hub(tmp_path, {"moving.py": source(0)}, store="sqlite")
    try:
        store = hub.catalogue.store
        announced = AnnouncedLists(hub.catalogue)
        reads: list[str] = []
        monkeypatch.setattr(announced, "wait", reads.append)
        for _ in range(100):
            announced.follow()
        assert len(reads) == 1
        store.bus.publish(f"{CHANGED}moving")
        announced.follow()
        announced.follow()
        assert len(reads) == 2
        monkeypatch.setattr(announced_lists, "CURRENT_SECONDS", -1.0)
        announced.follow()
        assert len(reads) == 3
    finally:
        hub.close()
