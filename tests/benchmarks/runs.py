"""Runs for the tests of the benchmark's report: figures as a measurement would give them."""

from __future__ import annotations

from benchmarks.contenders import BARE, FASTMCP, INLINE, ISOLATED
from benchmarks.load import MODERN, PLAIN, SESSION, STATELESS, condition_of
from benchmarks.reporting.results import Row, Run

CONVERSATIONS = (SESSION, STATELESS, MODERN)


def call(subject: str, conversation: str, processor_us: float, rate: float = 1000.0, connections: int = 16) -> Row:
    """A row of calls."""
    figures = {"processor_us": processor_us, "core_share": 0.9, "rate": rate, "p50_ms": 1.0, "p99_ms": 2.0}
    return Row("calls", subject, condition_of(conversation, connections), figures)


def run_with(*rows: Row, began: str = "2026-11-22T12:00:00+00:00", is_quick: bool = False) -> Run:
    """A run of these rows."""
    return Run(began, {"processor": "a processor", "Python": "3.11"}, {"seconds": 8.0}, is_quick, rows)


def run_of_calls(inline: float = 200.0, fastmcp: float = 2600.0, bare: float = 180.0) -> Run:
    """A run of calls: microseconds of processor time of each subject, the same in every conversation."""
    rows = [call(INLINE, one, inline, 4000.0) for one in CONVERSATIONS]
    rows += [call(ISOLATED, one, 400.0, 2000.0) for one in CONVERSATIONS]
    rows += [call(FASTMCP, one, fastmcp, 400.0) for one in CONVERSATIONS]
    rows += [call(BARE, PLAIN, bare, 5000.0), call(ISOLATED, MODERN, 800.0, 1500.0, 128)]
    return run_with(*rows)
