"""A client that was notified of a change lists the change, whichever worker of the hub it reaches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from patchbay.boot.changes import change_names
from patchbay.catalogue.operating import announced_lists
from patchbay.catalogue.operating.announced_lists import AnnouncedLists
from patchbay.topics import ACCESS, CHANGED, CHANGES, LISTING, LISTS
from tests.hubs import Hub, Stream, modern_request
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


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Hub]]:
    """Two workers of one hub, whose requests do not wait for announced lists."""
    monkeypatch.setattr(announced_lists, "WAIT_SECONDS", 0.0)
    found = [Hub(tmp_path, {"moving.py": source(0)}, store="sqlite", workers=2, keepalive=1) for _ in range(2)]
    for one in found:
        assert one.client.get("/inspect").status_code  # its pages have a dispatcher of their own
    yield found
    for one in found:
        one.close()


def listen(worker: Hub, address: str) -> Stream:
    """Return a subscription to the list of tools at a worker, after its acknowledgement."""
    stream = worker.stream(
        address, *modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    )
    assert b"subscriptions/acknowledged" in next(stream)
    return stream


def heard(stream: Stream) -> None:
    """Wait for the next notification that the list of tools changed; a silent stream yields signs of life."""
    until(lambda: b"tools/list_changed" in next(stream), "a notification that the list changed")


def tools_of(worker: Hub, address: str) -> list[str]:
    return [each["name"] for each in worker.modern(address, "tools/list").result["tools"]]


def test_a_client_that_got_the_old_list_from_a_late_worker_hears_of_the_change_again(workers: list[Hub]) -> None:
    """A client lists once for each announcement: without another one it keeps the old list until the next change."""
    early, late = workers
    stream = listen(early, "moving")
    with late.catalogue._lock:  # the late worker does not get to build
        (early.servers / "moving.py").write_text(source(1))
        heard(stream)
        assert tools_of(late, "moving") == ["tool_0"]
    heard(stream)
    assert tools_of(late, "moving") == ["tool_1"]
    stream.close()


def test_a_client_hears_again_of_a_listing_that_a_late_worker_did_not_apply(workers: list[Hub]) -> None:
    early, late = workers
    stream = listen(early, "")
    with late.catalogue._lock:
        store = early.catalogue.store
        change_names(store, {LISTING: store.blobs.put(b'{"exclude": ["moving.*"]}')}, "test", "hide its tools")
        heard(stream)
        assert "moving__tool_0" in tools_of(late, "")
    heard(stream)
    assert "moving__tool_0" not in tools_of(late, "")
    stream.close()


def test_a_client_hears_again_of_grants_that_a_late_worker_did_not_apply(workers: list[Hub]) -> None:
    """Grants change what a caller sees, and no list that is stored."""
    early, late = workers
    stream = listen(early, "moving")
    with late.catalogue._lock:
        store = early.catalogue.store
        grants = {"grants": [{"to": ["*"], "may": ["see"], "on": ["moving", "-moving.tool_0"]}]}
        change_names(store, {ACCESS: store.blobs.put(orjson.dumps(grants))}, "test", "hide one tool")
        heard(stream)
        assert tools_of(late, "moving") == ["tool_0"]
    heard(stream)
    assert tools_of(late, "moving") == []
    stream.close()


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
