"""Numbers and shapes of the plots: counted by hand, and true for any records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from patchbay.activity.records import OUTCOMES, Record
from patchbay.web.activity.numbers import (
    MAX_BARS,
    count_over_time,
    group_by_tool,
    most_called_tools,
    slowest_tools,
)
from patchbay.web.rendering.plots import PLOT_HEIGHT, TOP_MARGIN, add_shares, draw_bars, draw_spread, format_duration

PLAIN = Record(
    id="1-0",
    at=1000.0,
    ms=10.0,
    first_ms=None,
    way="http",
    endpoint="s",
    method="tools/call",
    server="s",
    version="",
    definition=None,
    name="t",
    digest=None,
    outcome="ok",
    code=None,
    events=0,
    progress=0,
    size=0,
    principal="local",
    session=None,
    client=None,
    revision=None,
    trace=None,
    task=None,
    arguments=None,
    arguments_cid=None,
    answer=None,
    answer_cid=None,
)

RECORDS = st.lists(
    st.builds(
        lambda at, ms, outcome, name: replace(PLAIN, at=at, ms=ms, outcome=outcome, name=name),
        st.floats(0, 1e7),
        st.floats(0, 1e6),
        st.sampled_from(OUTCOMES),
        st.sampled_from("abc"),
    ),
    max_size=40,
)


def call(at: float, ms: float = 10.0, **more: Any) -> Record:
    return replace(PLAIN, at=at, ms=ms, **more)


def test_calls_are_counted_in_the_step_in_which_they_began() -> None:
    records = [call(1000.0), call(1001.9, outcome="tool_error"), call(1002.0, outcome="cancelled"), call(1004.5)]
    found = count_over_time(records, 1000, 1100)
    assert found["step"] == 2
    told = [(bar["at"], bar["worked"], bar["failed"], bar["cancelled"]) for bar in found["bars"][:3]]
    assert told == [(1000, 1, 1, 0), (1002, 0, 0, 1), (1004, 1, 0, 0)]


def test_calls_at_once_and_listening_streams_are_the_most_in_each_step() -> None:
    records = [call(1000.1, 5000), call(1000.2, 100), call(1003.0, 10)]
    listening = [(1002.5, 3), (1002.6, 1), (1006.0, 0)]
    found = count_over_time(records, 1000, 1040, listening)["bars"]
    assert [bar["at_once"] for bar in found[:7]] == [2, 1, 1, 2, 1, 1, 0]
    assert [bar["listening"] for bar in found[:8]] == [None, None, 3, 1, 1, 1, 1, 0]


def test_percentiles_of_durations_use_the_nearest_rank() -> None:
    [row] = group_by_tool([call(1.0, float(ms), outcome="timeout" if ms == 7 else "ok") for ms in range(1, 101)])
    assert (row["calls"], row["failed"], row["seconds"]) == (100, 1, 5.05)
    assert [row[label] for label in ("p5", "p25", "p50", "p75", "p95", "p99", "max")] == [5, 25, 50, 75, 95, 99, 100]


def test_the_slowest_tools_come_first_and_so_do_the_busiest() -> None:
    rows = group_by_tool([call(1.0, 900, name="slow"), *[call(1.0, 2, name="often")] * 9, call(1.0, 5, name="plain")])
    assert [row["name"] for row in slowest_tools(rows)] == ["slow", "plain", "often"]
    assert [row["name"] for row in most_called_tools(rows)] == ["often", "plain", "slow"]


@given(RECORDS, st.floats(60, 1e7))
def test_every_plot_stays_within_its_frame(records: list[Record], length: float) -> None:
    begin = min((record.at for record in records), default=0.0)
    time = count_over_time(records, begin, begin + length, [(begin, 2)])
    assert 1 <= len(time["bars"]) <= MAX_BARS
    inside = sum(begin - time["step"] <= record.at <= begin + length for record in records)
    assert sum(bar["worked"] + bar["failed"] + bar["cancelled"] for bar in time["bars"]) <= max(inside, len(records))
    for plot in (draw_bars(time), draw_bars(time, ("at_once",), "listening")):
        for shape in plot["shapes"]:
            assert shape["x"] >= 0 and shape["x"] + shape["width"] <= 100.01
            assert shape["y"] >= TOP_MARGIN - 4 and shape["y"] + shape["height"] <= TOP_MARGIN + PLOT_HEIGHT + 0.01
    rows = group_by_tool(records)
    for row in draw_spread(most_called_tools(rows))["rows"]:
        places = [row[label] for label in ("p5", "p25", "p50", "p75", "p95", "max")]
        assert places == sorted(places) and places[0] >= 0 and places[-1] <= 100
    assert all(0 <= each["width"] <= 100 for each in add_shares(slowest_tools(rows), "p95"))


def test_durations_are_written_for_people() -> None:
    found = [format_duration(ms) for ms in (0.04, 0.4, 3.21, 12.3, 999, 1234, 119_000, 600_000)]
    assert found == ["0.04 ms", "0.4 ms", "3.2 ms", "12 ms", "999 ms", "1.23 s", "119 s", "10 min"]
