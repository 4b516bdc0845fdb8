"""A result comes once, to one callback."""

from __future__ import annotations

import pytest

from patchbay.wire.server.results import Result


def test_a_callback_gets_a_result_that_comes_before_or_after_it() -> None:
    seen: list[object] = []
    early, late = Result(), Result()
    assert early.set("early") is None
    early.add_done_callback(lambda result: seen.append(result.result()))
    late.add_done_callback(lambda result: seen.append(result.result()))
    tell = late.set("late")
    assert tell is not None
    tell()
    assert seen == ["early", "late"]


def test_only_the_first_result_counts() -> None:
    result = Result()
    result.set(1)
    assert result.set(2) is None
    assert result.result() == 1


def test_an_error_is_raised_where_the_result_is_read() -> None:
    result = Result()
    result.set(None, ConnectionError("gone"))
    with pytest.raises(ConnectionError, match="gone"):
        result.result()


def test_a_result_that_nobody_awaits_any_more_calls_nothing() -> None:
    result = Result()
    result.add_done_callback(lambda _: pytest.fail("it was cancelled"))
    result.cancel()
    assert result.set(1) is None
