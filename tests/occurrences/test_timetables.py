"""Timetables: the times of cron expressions in time zones, and the sentences for wrong ones."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.occurrences.timetables import SHORT_FORMS, Timetable

BERLIN = ZoneInfo("Europe/Berlin")


def at(*fields: int) -> float:
    return datetime(*fields, tzinfo=BERLIN).timestamp()  # type: ignore[misc,arg-type]


def test_an_expression_counts_in_its_time_zone() -> None:
    """36.1"""
    table = Timetable("0 7 * * 1-5", "Europe/Berlin")
    friday = at(2026, 11, 27, 7)
    assert table.newest(friday) == friday
    assert table.next(friday) == at(2026, 11, 30, 7)
    assert table.newest(friday - 0.001) == at(2026, 11, 26, 7)
    assert Timetable("0 7 * * 1-5").next(friday - 3600) == friday + 3600


def test_a_time_that_a_day_does_not_have_is_made_up_and_one_that_it_has_twice_counts_once() -> None:
    table = Timetable("30 2 * * *", "Europe/Berlin")
    spring = table.next(at(2026, 3, 28, 12))
    assert (spring, table.next(spring)) == (at(2026, 3, 29, 3), at(2026, 3, 30, 2, 30))
    autumn = table.next(at(2026, 10, 24, 12))
    assert (autumn, table.next(autumn)) == (at(2026, 10, 25, 2, 30), at(2026, 10, 26, 2, 30))


@given(
    st.sampled_from([*SHORT_FORMS, "*/7 * * * *", "30 2 * * *", "15 1-3 * * 0", "0 0 29 2 *", "*/10 * * * * *"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.integers(946684800, 2524608000),
    st.floats(0, 0.999),
)
def test_no_time_is_before_the_next_one_and_after_the_newest_one(
    expression: str, zone: str, second: int, part: float
) -> None:
    table, now = Timetable(expression, zone), second + part
    newest, following = table.newest(now), table.next(now)
    assert newest <= now < following
    assert table.newest(following) == following
    assert table.newest(following - 1) <= following - 1


@pytest.mark.parametrize(
    ("expression", "zone", "reason"),
    [
        ("61 * * * *", "UTC", "bad minute"),
        ("* * *", "UTC", "wrong number of fields"),
        ("", "UTC", "wrong number of fields"),
        ("0 0 30 2 *", "UTC", "bad day-of-month"),
        ("0 0 1 1 MON#6", "UTC", "bad day-of-week"),
        ("@reboot", "UTC", "not a cron expression"),
        ("*" * 300, "UTC", "more than 200 characters"),
        ("@daily", "Mars/Base", "expected a name such as Europe/Berlin"),
        ("@daily", "", "is unknown"),
        ("@daily", "../etc/passwd", "is unknown"),
        ("@daily", "\0", "is unknown"),
    ],
)
def test_a_wrong_expression_or_zone_is_named_with_what_is_expected(expression: str, zone: str, reason: str) -> None:
    assert reason in (Timetable(expression, zone).check() or "")


@given(st.text(max_size=30), st.text(max_size=20))
def test_any_text_is_right_or_named_as_wrong(expression: str, zone: str) -> None:
    table = Timetable(expression, zone)
    if table.check() is None:
        assert table.next(0) > 0
