"""benchmarks/reporting/targets.py: which targets a run meets (issue 14 item 8, DESIGN section 10)."""

from __future__ import annotations

import pytest

from benchmarks.contenders import INLINE
from benchmarks.load import SESSION
from benchmarks.parameters import Parameters
from benchmarks.reporting.results import Row, Run
from benchmarks.reporting.targets import (
    CONNECTIONS,
    DOCUMENTS,
    DROP_INS,
    LANGUAGES,
    LIST_CONDITION,
    MANY_CONNECTIONS,
    PAGES,
    STREAMS,
    TARGETS,
    TargetResult,
    judge,
)
from tests.benchmarks.runs import call, run_of_calls, run_with


def verdict(id: str, *runs: Run) -> TargetResult:
    return next(one for one in judge(runs) if one.target.id == id)


def test_every_target_has_a_name_of_its_own() -> None:
    assert len({target.id for target in TARGETS}) == len(TARGETS)


def test_a_ratio_is_the_processor_time_of_the_peer_for_that_of_the_hub() -> None:
    found = verdict("inline-fastmcp", run_of_calls(inline=200.0, fastmcp=2600.0))
    assert found.figures == [13.0]
    assert found.clocks == [10.0]
    assert found.is_met is True


def test_the_worst_conversation_decides() -> None:
    run = run_of_calls(inline=200.0, fastmcp=2600.0)
    rows = [row for row in run.rows if (row.subject, row.condition) != (INLINE, f"{SESSION}, 16 connections")]
    found = verdict("inline-fastmcp", run_with(*rows, call(INLINE, SESSION, 260.0)))
    assert found.figures == [10.0]
    assert found.is_met is False
    assert found.target.missed_by(10.0) == pytest.approx(1 / 6)


def test_a_target_is_met_when_every_run_meets_it() -> None:
    good, bad = run_of_calls(bare=210.0), run_of_calls(bare=160.0)
    assert verdict("inline-flask", good, good).is_met is True
    mixed = verdict("inline-flask", good, bad, good)
    assert mixed.is_met is False
    assert mixed.worst == pytest.approx(0.8)


def test_a_target_without_a_figure_has_no_verdict() -> None:
    found = verdict("lists", run_of_calls())
    assert (found.figures, found.worst, found.is_met) == ([None], None, None)


def test_a_missing_conversation_leaves_the_ratio_unmeasured() -> None:
    run = run_of_calls()
    rows = [row for row in run.rows if not (row.subject == INLINE and row.condition.startswith(SESSION))]
    assert verdict("inline-fastmcp", run_with(*rows)).is_met is None


def test_more_connections_are_held_against_fewer() -> None:
    found = verdict("isolated-many", run_of_calls())
    assert (found.figures, found.clocks, found.is_met) == ([2.0], [0.75], False)


def test_a_mount_is_held_against_the_worse_era() -> None:
    def row(era: str, added: float, cost: float) -> Row:
        figures = {"added_ms": added, "processor_us": cost, "direct_processor_us": 200.0}
        return Row("mount", "mount over HTTP", era, figures)

    run = run_with(row("2026-07-28", 0.4, 280.0), row("2025-11-25 with a session", 1.1, 320.0))
    assert verdict("mount-added", run).figures == [1.1]
    assert verdict("mount-cost", run).figures == [1.6]
    assert verdict("mount-program", run).is_met is None


def test_the_hub_is_held_against_the_cheapest_other_gateway() -> None:
    def row(name: str, cost: float) -> Row:
        return Row("gateways", name, "a program on stdio, 16 connections", {"processor_us": cost})

    run = run_with(row("Patchbay", 200.0), row("one", 300.0), row("another", 150.0))
    assert verdict("gateway-program", run).figures == [0.75]
    assert verdict("gateway-program", run_with(row("Patchbay", 200.0))).is_met is None
    assert verdict("gateway-url", run).is_met is None


def test_streams_starts_pages_and_search_are_read_from_their_parts() -> None:
    streams = {"memory_kib": 10.0, "ping_p99_ms": 60.0, "calls_kept": 0.95, "rate_kept": 0.8}
    run = run_with(
        Row("streams", INLINE, "10,000 streams", streams),
        Row("start", "idle", "1,000 drop-ins", {"core_share": 0.005}),
        Row("start", "first start", "empty hub", {"seconds": 0.9, "processor_ms": 800.0}),
        Row("pages", "/", PAGES, {"cold_ms": 310.0, "warm_ms": 20.0}),
        Row("pages", "/mcp", PAGES, {"cold_ms": 20.0, "warm_ms": 20.0}),
        Row("search", "FTS5", LANGUAGES, {"reciprocal_rank": 0.5}),
        Row("search", "library", LANGUAGES, {"reciprocal_rank": 0.95}),
    )
    met = {one.target.id: one.is_met for one in judge([run]) if one.is_met is not None}
    assert met == {
        "streams-memory": True,
        "streams-ping": False,
        "streams-calls": True,
        "start-empty": False,
        "idle": True,
        "search": True,
        "pages": False,
    }


def test_a_quick_run_is_not_held_against_the_targets_of_a_large_hub() -> None:
    run = run_with(Row("pages", "/", "10 servers, 40 calls", {"cold_ms": 10.0, "warm_ms": 1.0}))
    assert verdict("pages", run).is_met is None


def test_the_usual_parameters_measure_what_the_targets_ask_for() -> None:
    usual = Parameters()
    assert {CONNECTIONS, MANY_CONNECTIONS} == set(usual.connections)
    assert f"{usual.page_servers} servers, {usual.page_calls:,} calls" == PAGES
    assert f"documents in {len(usual.languages)} languages" == LANGUAGES
    assert f"{usual.drop_ins:,} drop-ins" == DROP_INS
    assert f"{usual.documents:,} documents" == DOCUMENTS
    assert STREAMS in [f"{streams:,} streams" for streams in usual.streams]
    assert LIST_CONDITION.startswith(f"{usual.tools:,} tools, ")
