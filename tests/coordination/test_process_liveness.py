"""Liveness of the processes of a hub: beats in the journal, and processes without them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from patchbay.coordination import process_liveness
from patchbay.coordination.process_liveness import Heartbeat, ProcessLiveness
from patchbay.errors import ContentError
from patchbay.stores.memory import MemoryStore
from patchbay.topics import ALIVE
from tests.waiting import until


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore()
    yield opened
    opened.close()


def test_a_process_without_a_beat_counts_as_lost(store: MemoryStore) -> None:
    liveness, other = ProcessLiveness(store), ProcessLiveness(store)
    assert not liveness.is_alive(liveness.process)
    liveness.beat()
    assert other.is_alive(liveness.process)
    assert not liveness.is_alive(other.process)


def test_a_process_is_alive_as_soon_as_it_begins_a_stream(store: MemoryStore) -> None:
    heartbeat = Heartbeat(store)
    heartbeat.begin()
    assert ProcessLiveness(store).is_alive(heartbeat.liveness.process)
    heartbeat.end()


def count_beats(heartbeat: Heartbeat) -> int:
    store = heartbeat.liveness.store
    return len(store.journal.read(ALIVE + heartbeat.liveness.process))


def test_a_beat_that_fails_is_followed_by_another_and_logged_once(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk is full for a while: the streams of this process are not taken for lost for the rest of its life."""
    monkeypatch.setattr(process_liveness, "BEAT_SECONDS", 0.01)
    append, failed = store.journal.append, []

    def fail(*given: Any) -> int:
        failed.append(given)
        raise ContentError("the disk is full")

    heartbeat = Heartbeat(store)
    heartbeat.begin()
    with caplog.at_level(logging.ERROR):
        monkeypatch.setattr(store.journal, "append", fail)
        until(lambda: len(failed) >= 3, "three failed beats")
        monkeypatch.setattr(store.journal, "append", append)
        before = count_beats(heartbeat)
        until(lambda: count_beats(heartbeat) > before, "a beat after the failed ones")
    heartbeat.end()
    assert [one.message for one in caplog.records] == [
        "this process cannot record that it is alive (the disk is full); it tries again each second"
    ]


def test_a_heartbeat_that_could_not_start_its_thread_starts_one_for_the_next_stream(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_liveness, "BEAT_SECONDS", 0.01)
    heartbeat = Heartbeat(store)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            heartbeat.begin()
    heartbeat.begin()
    before = count_beats(heartbeat)
    until(lambda: count_beats(heartbeat) > before, "a beat of the thread")
    heartbeat.end()
    until(lambda: "heartbeat" not in {one.name for one in threading.enumerate()}, "the end of the thread")
