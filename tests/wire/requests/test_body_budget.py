"""The budget of memory for large bodies, and the share of one caller."""

from __future__ import annotations

import tracemalloc

import orjson
import pytest

from patchbay.wire.requests.body_budget import Budget, TooManyBytes, TooManyOwnBytes, parsed_size


def test_a_caller_has_at_most_a_quarter_and_others_the_rest() -> None:
    budget = Budget(400, 0)
    budget.acquire(60, "ann")
    budget.acquire(40, "ann")
    with pytest.raises(TooManyOwnBytes, match="large requests of this caller"):
        budget.acquire(1, "ann")
    for other in ("ben", "cat", "dan"):
        budget.acquire(100, other)
    budget.give_back(60, "ann")
    budget.acquire(60, "ann")


def test_one_body_of_a_caller_may_exceed_its_share() -> None:
    budget = Budget(400, 0)
    budget.acquire(300, "ann")
    with pytest.raises(TooManyOwnBytes):
        budget.acquire(1, "ann")
    budget.acquire(100, "ben")
    budget.give_back(300, "ann")
    budget.acquire(300, "ann")


def test_callers_without_a_name_have_no_share() -> None:
    budget = Budget(400, 0)
    for _ in range(4):
        budget.acquire(100)
    with pytest.raises(TooManyBytes):
        budget.acquire(1)


def test_nothing_is_left_of_a_caller_that_gave_everything_back() -> None:
    budget = Budget(400, 0)
    for number in range(100):
        budget.acquire(3, f"caller{number}")
        budget.give_back(3, f"caller{number}")
    assert budget._held_by == {}


@pytest.mark.parametrize(
    "value",
    [
        *("x" * 300_000, "\N{SNOWMAN}" * 100_000, "\N{SNAKE}" * 100_000, ["a"] * 100_000, [[]] * 100_000),
        *([{}] * 100_000, [{"a": {}}] * 50_000, {str(number): number for number in range(50_000)}, [1.5] * 100_000),
    ],
    ids=["text", "unicode", "emoji", "texts", "lists", "objects", "nested", "names", "numbers"],
)
def test_the_estimate_is_not_below_the_memory_of_the_parsed_body(value: object) -> None:
    body = orjson.dumps(value)
    tracemalloc.start()
    try:
        parsed = orjson.loads(body)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert parsed is not None
    assert used <= parsed_size(body) * 1.1
