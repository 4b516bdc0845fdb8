"""The calls of a minute by key: their pace, their number, and what is forgotten.

Sources: ACCESS section 6; issue 16 item 5.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from patchbay.access.call_rates import CALLS_AT_ONCE, MAX_DELAY_SECONDS, CallRates
from patchbay.limits import RecentTimes


def test_calls_that_come_at_once_begin_at_the_pace_of_their_minute() -> None:
    now = 1000.0
    rates = CallRates(lambda: now)
    limits = [rates.make_limit("principal ann", 3000)]
    assert [rates.count(limits) for _ in range(CALLS_AT_ONCE)] == [0.0] * CALLS_AT_ONCE
    assert [round(float(rates.count(limits)), 3) for _ in range(3)] == [0.02, 0.04, 0.06]
    assert rates.count([rates.make_limit("principal ben", 3000)]) == 0.0, "another key has a pace of its own"
    now += 60.0
    assert [rates.count(limits) for _ in range(CALLS_AT_ONCE)] == [0.0] * CALLS_AT_ONCE


def test_a_call_that_would_wait_for_too_long_is_refused() -> None:
    now = 1000.0
    rates = CallRates(lambda: now)
    delays = [rates.count([rates.make_limit("principal ann", 3000)]) for _ in range(200)]
    begun = [delay for delay in delays if isinstance(delay, float)]
    assert len(begun) == CALLS_AT_ONCE + 50 and max(begun) <= MAX_DELAY_SECONDS + 1e-9
    assert delays[-1] == "principal ann" and not rates.has_room("principal ann", 3000)
    assert rates.seconds_until_room("principal ann", 3000) == 2
    now += 0.5
    assert rates.has_room("principal ann", 3000)


def test_a_flood_gets_the_calls_of_its_minute_and_no_more() -> None:
    """A caller that tries every five milliseconds, for ten minutes."""
    now = 0.0
    rates = CallRates(lambda: now)
    begun = []
    for _ in range(10 * 60 * 200):
        now += 0.005
        delay = rates.count([rates.make_limit("principal ann", 600)])
        if isinstance(delay, float):
            begun.append(now + delay)
    most = max(bisect_left(begun, at + 60.0) - place for place, at in enumerate(begun))
    assert most <= 600 and 5900 <= len(begun) <= 6000 + CALLS_AT_ONCE + 10 * MAX_DELAY_SECONDS


def test_a_key_without_calls_in_the_last_minute_is_forgotten() -> None:
    now = 0.0
    rates = CallRates(lambda: now)
    rates.count([rates.make_limit("principal ben", 10)])
    now = 7.0
    rates.count([rates.make_limit("principal ann", 10)])
    now = 66.0
    rates.forget_idle_keys()
    assert list(rates._times) == ["principal ann"]


class Unwalked(RecentTimes):
    """Times of calls that no reader may walk through."""

    def __iter__(self) -> Iterator[float]:
        raise AssertionError("somebody walks through all calls of a minute")


def test_the_number_of_calls_in_the_last_minute_is_read_without_a_walk_through_them() -> None:
    """All calls of a process wait while the numbers are read."""
    now = 0.0
    rates = CallRates(lambda: now)
    limits = [rates.make_limit("principal ann", 3000)]
    limits[0].times.begun = Unwalked()
    for second in (0.0, 30.0, 59.0):
        now = second
        rates.count(limits)
    read = []
    for second in (59.0, 60.0, 90.0, 119.5):
        now = second
        read += rates.in_last_minute()
    assert read == [("principal ann", number) for number in (3, 2, 1, 0)]


def test_a_fast_pace_delays_no_call_by_microseconds() -> None:
    """Sixteen programs that call at once, with a limit of a million calls in a minute."""
    now = 0.0
    rates = CallRates(lambda: now)
    limits = [rates.make_limit("principal ann", 1_000_000)]
    assert {rates.count(limits) for _ in range(800)} == {0.0}
    assert {rates.count(limits) == 0.0 for _ in range(100)} == {True, False}, "a flood still gets its pace"
