"""Records and audit rows wait while the database is away, and are written once when it is back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.activity import recorder
from patchbay.activity.recorder import Activity
from patchbay.activity.records import Filter
from patchbay.errors import StoreAway
from patchbay.store import Store
from patchbay.stores.postgresql import database as connections
from patchbay.topics import ACTIVITY
from tests.databases import PostgresqlServer
from tests.hubs import Hub
from tests.waiting import until

SERVER = 'def say(text: str) -> str:\n    """Say it again."""\n    return text\n'
CALLS = 40


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    """A PostgreSQL that the test may stop."""
    made = PostgresqlServer()
    yield made
    made.close()


def start_hub(folder: Path, server: PostgresqlServer) -> Hub:
    (folder / "key").write_text("ab" * 32)
    return Hub(folder, {"saying.py": SERVER}, store=server.new_schema(), key_file=folder / "key")


def call(hub: Hub, number: int) -> None:
    said = hub.modern("saying", "tools/call", {"name": "say", "arguments": {"text": f"{number}"}})
    assert said.result["content"] == [{"type": "text", "text": f"{number}"}]


def is_written(activity: Activity) -> bool:
    activity.flush()
    return activity.waiting == 0


def is_back(store: Store) -> bool:
    return store.check() is None


def test_calls_go_on_during_an_outage_and_their_records_are_written_once_afterwards(
    tmp_path: Path, server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.8: longer than writes are tried again; three times."""
    monkeypatch.setattr(connections, "RETRY_SECONDS", 0.3)
    monkeypatch.setattr(connections, "READ_SECONDS", 0.1)
    hub = start_hub(tmp_path, server)
    try:
        store, activity = hub.catalogue.store, hub.activity
        made = 0
        for _ in range(3):
            server.stop("immediate")
            for _ in range(CALLS):
                call(hub, made)
                made += 1
            activity.flush()
            assert activity.waiting > 0
            server.start()
            begun = time.monotonic()
            until(lambda: is_back(store), "the store is back")
            until(lambda: is_written(activity), "the records are written")
            assert time.monotonic() - begun < 10
        page = activity.recent(Filter(), 1000)
        texts = sorted(int(str(record.arguments["text"])) for record in page.records if record.name == "say")
        assert texts == list(range(made))
        assert (activity.dropped, activity.failed) == (0, 0)
    finally:
        hub.close()


def test_the_buffer_is_bounded_and_what_it_cannot_hold_is_counted(
    tmp_path: Path, server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.8"""
    monkeypatch.setattr(connections, "RETRY_SECONDS", 0.3)
    monkeypatch.setattr(recorder, "MAX_QUEUED_RECORDS", 10)
    hub = start_hub(tmp_path, server)
    try:
        activity = hub.activity
        server.stop("immediate")
        for number in range(25):
            call(hub, number)
        assert activity.waiting == 10
        assert activity.dropped == 15
        server.start()
        until(lambda: is_back(hub.catalogue.store), "the store is back")
        until(lambda: is_written(activity), "the records are written")
        assert activity.failed == 0
    finally:
        hub.close()


def test_a_record_whose_write_was_not_answered_is_not_written_twice(
    tmp_path: Path, server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.7: the write may have happened before the store went away."""
    hub = start_hub(tmp_path, server)
    try:
        activity, journal = hub.activity, hub.catalogue.store.journal
        append, lost = journal.append, [True]

        def append_and_lose_the_answer(topic: str, data: bytes, keep: float | None = None) -> int:
            seq: int = append(topic, data, keep)
            if topic == ACTIVITY and lost:
                lost.clear()
                raise StoreAway("the answer was lost")
            return seq

        monkeypatch.setattr(journal, "append", append_and_lose_the_answer)
        call(hub, 1)
        until(lambda: is_written(activity), "the records are written")
        assert len(activity.recent(Filter(), 100).records) == 1
        assert not lost
    finally:
        hub.close()
