"""The tables of a run: one for each part, with a heading and a form for each figure; and that of the targets."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.reporting.results import Run
from benchmarks.reporting.targets import Target, TargetResult, judge

TITLES = {
    "calls": "Calls of `echo`",
    "lists": "Lists of tools",
    "yields": "From a tool's yield to the client",
    "streams": "Open streams",
    "mount": "Mounts",
    "gateways": "Gateways",
    "start": "Starting and changing",
    "servers": "A hub with many servers",
    "index": "The first index of a library",
    "search": "Ranking of a library's search",
    "pages": "Pages",
}

FIGURES = {
    "processor_us": ("processor time µs each", ",.0f"),
    "direct_processor_us": ("processor time of an inline call µs", ",.0f"),
    "processor_ms": ("processor time ms", ",.0f"),
    "core_share": ("share of a processor", ".3f"),
    "rate": ("calls each second", ",.0f"),
    "p50_ms": ("p50 ms", ",.2f"),
    "p99_ms": ("p99 ms", ",.2f"),
    "one_call_p99_ms": ("one call of each server, p99 ms", ",.2f"),
    "memory_mib": ("memory MiB", ",.0f"),
    "memory_kib": ("memory of each KiB", ",.1f"),
    "ping_p50_ms": ("ping p50 ms", ",.2f"),
    "ping_p99_ms": ("ping p99 ms", ",.2f"),
    "told_seconds": ("change sent to all s", ",.2f"),
    "told_processor_us": ("processor time of a change µs each", ",.0f"),
    "drain_seconds": ("end of the hub s", ",.2f"),
    "calls_kept": ("calls left, by processor time", ".2f"),
    "rate_kept": ("calls left, by the clock", ".2f"),
    "direct_ms": ("direct p50 ms", ",.2f"),
    "mounted_ms": ("mounted p50 ms", ",.2f"),
    "added_ms": ("added ms", ",.2f"),
    "seconds": ("seconds", ",.2f"),
    "times_fts5": ("times the processor time of FTS5", ".2f"),
    "reciprocal_rank": ("mean reciprocal rank", ".3f"),
    "cold_ms": ("first time ms", ",.0f"),
    "warm_ms": ("again ms", ",.0f"),
    "size_kib": ("KiB", ",.0f"),
}
"""Heading and form of each figure, in the order of the columns: processor time first."""

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Table:
    """A table as text. The first two columns are words, the others numbers."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def part_tables(runs: Sequence[Run]) -> Iterator[Table]:
    """Make the table of each part that was measured; each figure is the median of the runs."""
    for part, title in TITLES.items():
        found: dict[tuple[str, str], dict[str, list[float]]] = {}
        for row in (row for run in runs for row in run.rows if row.part == part):
            figures = found.setdefault((row.subject, row.condition), {})
            for name, figure in row.figures.items():
                figures.setdefault(name, []).append(figure)
        names = [name for name in FIGURES if any(name in figures for figures in found.values())]
        rows = [(*key, *(_cell(name, figures.get(name)) for name in names)) for key, figures in found.items()]
        if rows:
            yield Table(title, ("what", "condition", *(FIGURES[name][0] for name in names)), rows)


def target_table(runs: Sequence[Run]) -> Table:
    """Make the table of targets: the aim, the figure of each run, the result, and the ratio of rates by the clock."""
    numbered = [f"run {number}" for number in range(1, len(runs) + 1)]
    headings = ("target", "aim", *numbered, "met", "by the clock")
    return Table("Targets", headings, [_target_row(result) for result in judge(runs)])


def quantity(target: Target, figure: float | None) -> str:
    """Write a figure with the unit of its target."""
    if figure is None:
        return NOT_MEASURED
    number = f"{figure:.3g}" if abs(figure) < 1000 else f"{figure:,.0f}"
    return f"{number} {target.unit}".strip()


def format_result(result: TargetResult) -> str:
    """Say whether a target is met, and by how much it is missed."""
    if result.worst is None:
        return NOT_MEASURED
    if result.is_met:
        return "yes"
    return f"**no**, by {result.target.missed_by(result.worst):.0%}"


def _target_row(result: TargetResult) -> tuple[str, ...]:
    target = result.target
    aim = f"at {'least' if target.is_least else 'most'} {quantity(target, target.aim)}"
    figures = [quantity(target, figure) for figure in result.figures]
    clocks = [f"{clock:.3g}" for clock in result.clocks if clock is not None]
    return (target.sentence, aim, *figures, format_result(result), ", ".join(clocks))


def _cell(name: str, figures: Sequence[float] | None) -> str:
    return format(statistics.median(figures), FIGURES[name][1]) if figures else ""
