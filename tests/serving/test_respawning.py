"""When the supervisor gives up: after workers in a row that ended at once."""

from __future__ import annotations

from patchbay.serving.respawning import MAX_SHORT_LIVES, SHORT_LIFE_SECONDS, ShortLives


def test_the_last_of_too_many_workers_in_a_row_that_ended_at_once_is_noticed() -> None:
    lives = ShortLives()
    assert [lives.add(SHORT_LIFE_SECONDS) for _ in range(MAX_SHORT_LIVES)] == [False] * (MAX_SHORT_LIVES - 1) + [True]


def test_a_worker_that_lived_longer_begins_the_count_again() -> None:
    lives = ShortLives()
    for _ in range(3):
        assert [lives.add(0.1) for _ in range(MAX_SHORT_LIVES - 1)] == [False] * (MAX_SHORT_LIVES - 1)
        assert not lives.add(SHORT_LIFE_SECONDS + 1)
