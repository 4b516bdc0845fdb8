"""Times within the last while."""

from __future__ import annotations

from patchbay.limits.moving_window import RecentTimes


def test_times_up_to_the_oldest_one_are_forgotten() -> None:
    times = RecentTimes((1.0, 2.0, 3.0))
    times.forget_until(2.0)
    assert list(times) == [3.0]
    times.append(4.0)
    times.forget_until(10.0)
    assert not times
