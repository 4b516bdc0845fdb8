"""Refused calls: the first ones of a minute have a row each, the others one row together."""

from __future__ import annotations

from patchbay.access.audit.refusals import Refusals

BEGIN = 1_700_000_000.0


def refuse(counts: Refusals, number: int, at: float = BEGIN, principal: str = "key:robot") -> int:
    """Refuse some calls, a millisecond apart; return how many get no row of their own."""
    return sum(counts.is_beyond(principal, at + place / 1000) for place in range(number))


def test_calls_beyond_the_limit_of_a_minute_are_one_row() -> None:
    counts = Refusals(60)
    assert refuse(counts, 1000) == 940
    assert counts.take_rows(BEGIN + 59) == []
    assert counts.take_rows(BEGIN + 60) == [
        {
            "at": int((BEGIN + 0.999) * 1000),
            "count": 940,
            "first": int((BEGIN + 0.06) * 1000),
            "kind": "dropped",
            "last": int((BEGIN + 0.999) * 1000),
            "principal": "key:robot",
            "reason": "940 refused calls of key:robot between 2023-11-14T22:13:20+00:00 and 2023-11-14T22:13:20+00:00",
        }
    ]
    assert counts.take_rows(BEGIN + 1000, is_end=True) == []


def test_each_principal_and_each_minute_has_its_own_limit() -> None:
    counts = Refusals(60)
    assert refuse(counts, 100) == 40
    assert refuse(counts, 50, principal="ann") == 0
    assert refuse(counts, 100, BEGIN + 61) == 40
    assert [row["count"] for row in counts.take_rows(BEGIN + 62)] == [40]
    assert [row["count"] for row in counts.take_rows(BEGIN + 200)] == [40]


def test_an_end_writes_what_is_open_and_the_minute_goes_on() -> None:
    counts = Refusals(10)
    assert refuse(counts, 15) == 5
    assert [row["count"] for row in counts.take_rows(BEGIN + 1, is_end=True)] == [5]
    assert refuse(counts, 15, BEGIN + 2) == 15
    assert [row["count"] for row in counts.take_rows(BEGIN + 3, is_end=True)] == [15]


def test_processes_share_the_limit() -> None:
    assert refuse(Refusals(60, lambda: 4), 100) == 85


def test_few_refused_calls_leave_no_further_row() -> None:
    counts = Refusals(60)
    assert refuse(counts, 60) == 0
    assert counts.take_rows(BEGIN + 100, is_end=True) == []
