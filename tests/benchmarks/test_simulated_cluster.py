"""The simulation of many hubs: it agrees with a calculation by hand, and says when the work does not end."""

from __future__ import annotations

import pytest

from benchmarks.simulated_cluster import Constants, simulate

SLOW = Constants(hint_us=0, write_us=0, read_us=0, build_us=0, listener_us=100, database_processors=1)


def test_a_rare_change_takes_the_time_of_its_listeners() -> None:
    """36.5: 1,000 listeners of 100 µs each are told in a tenth of a second, at each hub at the same time."""
    found = simulate(SLOW, nodes=3, listeners=1000, changes_a_second=0.01)
    assert found["told_p50_seconds"] == pytest.approx(0.1)


def test_the_readers_of_many_hubs_wait_for_one_processor_of_the_database() -> None:
    slow_reads = Constants(hint_us=0, write_us=0, read_us=10_000, build_us=0, listener_us=0, database_processors=1)
    found = simulate(slow_reads, nodes=50, listeners=1, changes_a_second=0.01)
    assert found["told_p50_seconds"] == pytest.approx(0.5)


def test_more_work_than_time_is_a_share_above_one_and_a_growing_delay() -> None:
    found = simulate(SLOW, nodes=1, listeners=10_000, changes_a_second=2)
    assert found["busy_share_of_a_hub"] == 2 and found["told_p99_seconds"] > 100
