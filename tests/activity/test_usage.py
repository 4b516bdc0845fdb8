"""Sums of records by person, key, toolset, server and tool; and cells that a spreadsheet must not run."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.activity import usage
from patchbay.activity.records import FAILED, OUTCOMES, WIDTH, Filter
from patchbay.activity.stored_rows import ORIGINS, SENT_PLACE, encode_rows
from patchbay.activity.usage import GROUPS, UsageRow, count_usage, defuse, format_csv
from patchbay.stores.memory import MemoryJournal
from patchbay.topics import ACTIVITY

SECONDS = 3600.0


def row(
    at: int,
    caller: str = "ann",
    server: str = "notes",
    name: str = "search",
    outcome: str = "ok",
    sent: int | None = 7,
    digest: str | None = "d",
    is_toolset: bool = False,
) -> list[Any]:
    """A stored row; `sent` None makes one of a version that did not record the size of arguments."""
    plain = [at, 250_000, None, "http", server, "tools/call", server, "v", None, name, digest, outcome]
    made: list[Any] = [*plain, None, 1, 0, 10, caller, None, None, None, None, None, None, None, None, None]
    made.append([[0, ORIGINS, "[]"]] if is_toolset else [])
    assert len(made) == WIDTH + 1 == SENT_PLACE
    return made if sent is None else [*made, sent]


def journal_of(*rows: list[Any]) -> MemoryJournal:
    journal = MemoryJournal()
    for one in rows:
        journal.append(ACTIVITY, encode_rows([one]), SECONDS)
    return journal


JOURNAL = journal_of(
    row(1_000, "ann"),
    row(2_000, "ann", outcome="tool_error"),
    row(3_000, "key:robot", name="delete"),
    row(4_000, "key:robot", "desk", "find", is_toolset=True),
    row(5_000, "ben", "desk", "find", outcome="timeout", is_toolset=True, sent=None),
)


EVERY = Filter()


def rows_by(by: str, wanted: Filter = EVERY) -> list[tuple[str, str, str, int, int, int]]:
    found = count_usage(JOURNAL, wanted, by).rows
    return [(one.caller, one.server, one.tool, one.calls, one.failed, one.bytes_in) for one in found]


def test_each_table_has_its_groups_with_their_sums() -> None:
    callers = [("ann", "", "", 2, 1, 14), ("key:robot", "", "", 2, 0, 14), ("ben", "", "", 1, 1, 0)]
    assert rows_by("caller") == callers
    assert rows_by("person") == [callers[0], callers[2]]
    assert rows_by("key") == [callers[1]]
    assert rows_by("server") == [("", "notes", "", 3, 1, 21), ("", "desk", "", 2, 1, 7)]
    assert rows_by("toolset") == [("", "desk", "", 2, 1, 7)]
    assert rows_by("tool") == [
        ("", "desk", "find", 2, 1, 7),
        ("", "notes", "search", 2, 1, 14),
        ("", "notes", "delete", 1, 0, 7),
    ]


def test_a_filter_selects_the_calls_and_the_table_says_since_when() -> None:
    assert rows_by("caller", Filter(since=2.0, until=4.0)) == [
        ("ann", "", "", 1, 1, 7),
        ("key:robot", "", "", 1, 0, 7),
    ]
    assert rows_by("tool", Filter(caller="ben")) == [("", "desk", "find", 1, 1, 0)]
    found = count_usage(JOURNAL, Filter(since=2.0), "server")
    assert (found.begin, found.is_whole, found.total.calls) == (2.0, True, 4)
    assert (found.total.bytes_out, found.total.seconds) == (40, 1.0)


def test_a_caller_with_few_calls_does_not_have_all_records_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MAX_SEARCHED_CALLS", 3)
    found = count_usage(JOURNAL, Filter(caller="ann"), "tool")
    assert (found.is_whole, found.total.calls, found.begin) == (False, 0, 0.0)
    monkeypatch.setattr(usage, "MAX_SEARCHED_CALLS", 5)
    found = count_usage(JOURNAL, Filter(caller="ann"), "tool")
    assert (found.is_whole, found.total.calls) == (True, 2)


def test_a_table_of_too_many_calls_or_rows_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MAX_COUNTED_CALLS", 3)
    found = count_usage(JOURNAL, Filter(), "tool")
    assert (found.is_whole, found.total.calls, found.begin) == (False, 3, 3.0)
    monkeypatch.setattr(usage, "MAX_COUNTED_CALLS", 5)
    assert count_usage(JOURNAL, Filter(), "tool").is_whole
    monkeypatch.setattr(usage, "MAX_ROWS", 2)
    found = count_usage(JOURNAL, Filter(), "tool")
    assert (found.is_whole, len(found.rows), found.total.calls) == (False, 2, 5)


def test_a_name_that_came_from_a_caller_is_hidden_from_other_callers() -> None:
    journal = journal_of(row(1_000, "local", name="my secret", digest=None), row(2_000, "local"))
    tools = {one.tool for one in count_usage(journal, Filter(for_strangers=True), "tool").rows}
    assert tools == {"tools/call", "search"}
    assert {one.tool for one in count_usage(journal, Filter(), "tool").rows} == {"my secret", "search"}


CALLS = st.tuples(
    st.integers(1, 10_000),
    st.sampled_from(["ann", "key:robot", "local"]),
    st.sampled_from(["notes", "desk"]),
    st.sampled_from(["search", "delete", "=cmd"]),
    st.sampled_from(OUTCOMES),
    st.none() | st.integers(0, 10**9),
)


@given(st.lists(CALLS, max_size=30), st.sampled_from(GROUPS))
def test_the_rows_of_a_table_add_up_to_its_total(calls: list[tuple[Any, ...]], by: str) -> None:
    rows = [row(*each) for each in calls]
    found = count_usage(journal_of(*rows), Filter(), by)
    for name in ("calls", "failed", "bytes_in", "bytes_out"):
        assert sum(getattr(one, name) for one in found.rows) == getattr(found.total, name)
    if by in ("caller", "server", "tool"):
        assert found.total.calls == len(calls)
        assert found.total.failed == sum(each[4] in FAILED for each in calls)
        assert found.total.bytes_in == sum(each[5] or 0 for each in calls)


RISKY = ["=1+1", "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "＝1", "＠x"]


@pytest.mark.parametrize("text", RISKY)
def test_a_cell_that_a_spreadsheet_would_run_begins_with_an_apostrophe(text: str) -> None:
    assert defuse(text) == f"'{text}"
    written = format_csv([UsageRow(caller=text, server="notes", tool=text)])
    assert next(csv.DictReader(StringIO(written, newline="")))["tool"] == f"'{text}"


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=8))
def test_a_csv_is_read_as_it_was_written(names: list[tuple[str, str]]) -> None:
    names = [pair for pair in names if not any("\ud800" <= one <= "\udfff" for one in "".join(pair))]
    written = format_csv([UsageRow(caller=caller, tool=tool, calls=3) for caller, tool in names])
    found = [(one["caller"], one["tool"], one["calls"]) for one in csv.DictReader(StringIO(written, newline=""))]
    assert found == [(defuse(caller), defuse(tool), "3") for caller, tool in names]
    assert all(not cell[:1] or cell[0] not in "=+-@" for pair in found for cell in pair)


@pytest.mark.parametrize("text", ["", "search", "notes.search", "key:robot", "a=b", "https://id.example#ann"])
def test_a_usual_name_stays_as_it_is_in_a_csv(text: str) -> None:
    assert defuse(text) == text
