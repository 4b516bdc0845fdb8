"""How often the lists of a mounted server are read."""

from __future__ import annotations

from patchbay.upstreams.connections.event_queue import (
    REFRESH_BURST,
    REFRESH_INTERVAL_SECONDS,
    REFRESH_PAUSE_SECONDS,
    RefreshBudget,
)


def test_a_burst_of_changes_is_read_at_once_and_a_flood_once_in_an_interval() -> None:
    now = 0.0
    budget = RefreshBudget(lambda: now)
    pauses = []
    for _ in range(REFRESH_BURST + 50):
        pauses.append(budget.spend())
        now += pauses[-1]
    assert pauses[: REFRESH_BURST - 2] == [REFRESH_PAUSE_SECONDS] * (REFRESH_BURST - 2)
    assert all(abs(pause - REFRESH_INTERVAL_SECONDS) < 0.01 for pause in pauses[-20:])


def test_changes_a_second_apart_are_read_without_a_growing_pause() -> None:
    """A server that changed its lists a few times in a row was read up to ten seconds late."""
    now = 0.0
    budget = RefreshBudget(lambda: now)
    for _ in range(20):
        assert budget.spend() == REFRESH_PAUSE_SECONDS
        now += 1.0


def test_a_quiet_server_gets_its_burst_back() -> None:
    now = 0.0
    budget = RefreshBudget(lambda: now)
    while (pause := budget.spend()) == REFRESH_PAUSE_SECONDS:
        now += pause
    now += REFRESH_BURST * REFRESH_INTERVAL_SECONDS
    assert budget.spend() == REFRESH_PAUSE_SECONDS
