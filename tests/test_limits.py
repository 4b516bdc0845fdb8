"""Rates at given times: a bucket of tokens, and the times within the last while."""

from __future__ import annotations

import pytest

from patchbay.limits import RecentTimes, TokenBucket


def test_a_burst_is_taken_at_once_and_then_the_rate_holds() -> None:
    bucket = TokenBucket(2.0, 5.0, 100.0)
    assert [bucket.take(1, 100.0) for _ in range(6)] == [True] * 5 + [False]
    assert bucket.seconds_until(1) == pytest.approx(0.5)
    assert not bucket.take(1, 100.4) and bucket.take(1, 100.5)


def test_a_refused_taking_takes_nothing() -> None:
    bucket = TokenBucket(1.0, 5.0, 0.0)
    assert not bucket.take(6, 0.0) and bucket.take(5, 0.0)


def test_no_more_tokens_are_saved_than_the_limit() -> None:
    bucket = TokenBucket(1.0, 5.0, 0.0)
    assert bucket.refill(1000.0) == 5.0


def test_tokens_below_zero_are_paid_back_first() -> None:
    bucket = TokenBucket(2.0, 4.0, 0.0)
    bucket.tokens -= 10
    assert bucket.seconds_until(0) == pytest.approx(3.0)
    assert bucket.refill(2.0) == pytest.approx(-2.0) and not bucket.take(1, 2.5)
    assert bucket.refill(4.0) == pytest.approx(2.0)


def test_times_up_to_the_oldest_one_are_forgotten() -> None:
    times = RecentTimes((1.0, 2.0, 3.0))
    times.forget_until(2.0)
    assert list(times) == [3.0]
    times.append(4.0)
    times.forget_until(10.0)
    assert not times
