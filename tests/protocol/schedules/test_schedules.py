"""The decision about a schedule at a time: due, late, missed, skipped, dead and repeated runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.protocol.schedules.records import MAX_RUNS, Run, ScheduleState
from patchbay.protocol.schedules.schedules import ALIVE_SECONDS, MAX_ATTEMPTS, Schedule, decide, list_schedules

NINE = 1795856400.0
"""A full hour; the schedule is hourly."""

HERE, THERE = "here:1", "there:2"


def schedule(expression: str = "@hourly", /, **annotations: bool) -> Schedule:
    fields = {"schedule": expression, "timezone": "UTC", "arguments": {"name": "Ada"}, "max_delay": 600}
    wire: dict[str, Any] = {"name": "greet", "inputSchema": {"type": "object"}, "annotations": annotations}
    tools = {
        "greet": Descriptor("tool", "greet", wire, {"schedule": fields}),
        "plain": Descriptor("tool", "plain", {"name": "plain", "inputSchema": {"type": "object"}}),
    }
    (found,) = list_schedules({"desk": Server("desk", "v", "python", tools=tools)}).values()
    return found


def seen(handled: float = NINE - 3600, *runs: Run) -> ScheduleState:
    return ScheduleState("@hourly UTC", handled, runs)


def running(due: float = NINE, alive_until: float = NINE + ALIVE_SECONDS) -> Run:
    return Run(due, THERE, due, alive_until)


def decided(one: Schedule, state: ScheduleState | None, now: float) -> ScheduleState:
    found = decide(one, state, now, HERE)
    assert found is not None
    return found


def test_the_first_look_runs_nothing() -> None:
    """36.1: a schedule counts from the time at which a hub sees it first."""
    assert decide(schedule(), None, NINE + 5, HERE) == ScheduleState("@hourly UTC", NINE + 5)


def test_a_due_run_is_begun_once() -> None:
    state = decided(schedule(), seen(), NINE + 1)
    assert (state.handled, state.running and state.running.node) == (NINE, HERE)
    assert decide(schedule(), state, NINE + 2, THERE) is None


def test_nothing_is_begun_before_its_time() -> None:
    assert decide(schedule(), seen(NINE), NINE + 3599, HERE) is None


def test_of_several_missed_times_the_newest_is_made_up() -> None:
    state = decided(schedule(), seen(NINE - 5 * 3600), NINE + 599)
    assert [run.due for run in state.runs] == [NINE] and state.running is not None


def test_a_run_that_would_be_too_late_is_missed_with_the_reason() -> None:
    state = decided(schedule(), seen(), NINE + 601)
    assert state.running is None and state.runs[0].outcome == "missed"
    assert "601 s later is more than max_delay (600 s)" in state.runs[0].message
    assert decide(schedule(), state, NINE + 602, HERE) is None


def test_a_run_is_skipped_while_the_one_before_it_is_alive() -> None:
    before = running(NINE - 3600, NINE + 5)
    state = decided(schedule(), seen(NINE - 3600, before), NINE)
    assert [run.outcome for run in state.runs] == ["running", "skipped"]
    ended = before.end(NINE + 1, "ok", "done")
    changed = state.with_changed(before, ended)
    assert changed is not None and changed.runs[0] == ended


def test_a_change_of_the_times_makes_earlier_times_count_no_more() -> None:
    state = decided(schedule("0 * * * 1-7"), seen(NINE - 7200), NINE + 1)
    assert (state.times, state.handled, state.runs) == ("0 * * * 1-7 UTC", NINE + 1, ())


@pytest.mark.parametrize("hint", ["idempotentHint", "readOnlyHint"])
def test_a_dead_run_of_a_repeatable_tool_begins_again_elsewhere(hint: str) -> None:
    """36.1"""
    one, state = schedule("@hourly", **{hint: True}), seen(NINE, running())
    assert decide(one, state, NINE + ALIVE_SECONDS - 1, HERE) is None, "it is alive"
    for attempt in range(2, MAX_ATTEMPTS + 1):
        state = decided(one, state, NINE + attempt * 100)
        assert len(state.runs) == 1 and state.running is not None
        assert (state.running.attempt, state.running.node, state.running.due) == (attempt, HERE, NINE)
    last = decided(one, state, NINE + 1000).runs[0]
    assert last.outcome == "died" and "as in 2 attempts before" in last.message


def test_a_dead_run_of_another_tool_has_failed_with_the_reason() -> None:
    """36.1"""
    state = decided(schedule(), seen(NINE, running()), NINE + 100)
    assert state.running is None and state.runs[0].outcome == "died"
    assert "the process there:2 that ran it ended; it is not repeated" in state.runs[0].message


def test_an_end_that_comes_after_its_process_counted_as_dead_is_the_true_one() -> None:
    state = decided(schedule(), seen(NINE, running()), NINE + 100)
    late = state.with_changed(running(), running().end(NINE + 101, "ok", "done"))
    assert late is not None and late.runs[0].outcome == "ok"


def test_a_run_that_another_process_repeated_cannot_be_ended_by_the_first_one() -> None:
    state = decided(schedule(idempotentHint=True), seen(NINE, running()), NINE + 100)
    assert state.with_changed(running(), running().end(NINE + 101, "ok", "done")) is None


def test_the_last_runs_are_kept() -> None:
    state: ScheduleState | None = seen()
    for hour in range(MAX_RUNS + 5):
        state = decided(schedule(), state, NINE + hour * 3600)
        assert state.running is not None
        state = state.with_run(replace(state.running, ended=NINE + hour * 3600 + 1, outcome="ok"))
    assert state is not None and len(state.runs) == MAX_RUNS
    assert state.runs[0].due == NINE + (MAX_RUNS + 4) * 3600
