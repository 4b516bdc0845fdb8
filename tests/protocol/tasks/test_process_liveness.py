"""Liveness of the processes of a hub: beats in the journal, and processes without them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.protocol.tasks.process_liveness import Heartbeat, ProcessLiveness
from patchbay.stores.memory import MemoryStore


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
