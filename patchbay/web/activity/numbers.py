"""Statistics of calls: calls over time, durations, slow tools.

Pure functions of records. Quantiles use the nearest rank. Times are Unix seconds, durations milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil, inf
from typing import Any

from patchbay.activity.records import FAILED, Record

SUCCEEDED = frozenset(("ok", "input_required", "task"))
"""Besides FAILED, the only other outcome is `cancelled`."""

STEP_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 7 * 86400)
"""Possible widths of one bar of a chart, in seconds."""

MAX_BARS = 60
"""Bars of one chart, at most."""

MAX_PLOTTED_TOOLS = 10
"""Tools of one chart, at most."""

RANKS = (("p5", 0.05), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))


def count_over_time(
    records: Sequence[Record], begin: float, end: float, listening: Sequence[tuple[float, int]] = ()
) -> dict[str, Any]:
    """Count calls in steps of equal length: outcomes, most concurrent calls, most listening streams.

    `listening` holds the changes of the number of open streams as (time, number), oldest first. Before the first change
    the number is unknown (None).
    """
    step = next((each for each in STEP_SECONDS if (end - begin) / each <= MAX_BARS - 1), STEP_SECONDS[-1])
    first = int(begin // step) * step
    many = min(MAX_BARS, int((end - first) // step) + 1)
    bars: list[dict[str, Any]] = [
        {"at": first + place * step, "worked": 0, "failed": 0, "cancelled": 0, "at_once": 0, "listening": None}
        for place in range(many)
    ]
    for record in records:
        place = int((record.at - first) // step)
        if 0 <= place < many:
            bars[place][classify_outcome(record)] += 1
    for bar, most in zip(bars, _highest_values([*_concurrency_changes(records)], first, step, many), strict=True):
        bar["at_once"] = most or 0
    for bar, most in zip(bars, _highest_values(listening, first, step, many), strict=True):
        bar["listening"] = most
    return {"step": step, "bars": bars}


def classify_outcome(record: Record) -> str:
    """Classify the outcome of a call as `worked`, `failed` or `cancelled`."""
    return "worked" if record.outcome in SUCCEEDED else "failed" if record.outcome in FAILED else "cancelled"


def group_by_tool(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Group records by tool, prompt or resource: calls, failures and durations of each."""
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.server, record.method, record.name].append(record)
    return [_tool_row(*key, group) for key, group in groups.items()]


def most_called_tools(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools with the most calls."""
    return sorted(rows, key=lambda row: (-row["calls"], row["server"], row["name"]))[:MAX_PLOTTED_TOOLS]


def slowest_tools(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools with the highest p95."""
    return sorted(rows, key=lambda row: (-row["p95"], row["server"], row["name"]))[:MAX_PLOTTED_TOOLS]


def _tool_row(server: str, method: str, name: str, group: Sequence[Record]) -> dict[str, Any]:
    durations = sorted(record.ms for record in group)
    ranks = {label: durations[max(0, ceil(share * len(durations)) - 1)] for label, share in RANKS}
    failed = sum(record.outcome in FAILED for record in group)
    plain = {"server": server, "method": method, "name": name, "calls": len(group), "failed": failed}
    return plain | {"seconds": round(sum(durations) / 1000, 6)} | ranks


def _concurrency_changes(records: Iterable[Record]) -> Iterable[tuple[float, int]]:
    """The changes of the number of running calls, as (time, number)."""
    changes = sorted(
        change for each in records for change in ((each.at, 1), (each.at + max(each.ms, 0.001) / 1000, -1))
    )
    running = 0
    for at, by in changes:
        running += by
        yield at, running


def _highest_values(changes: Sequence[tuple[float, int]], first: float, step: float, many: int) -> list[int | None]:
    """The highest value of a changing number in each step; None before its first change."""
    found: list[int | None] = [None] * many
    ends = [at for at, _ in changes[1:]] + [inf] * bool(changes)
    for (at, number), until in zip(changes, ends, strict=True):
        begin = max(0, int((at - first) // step))
        end = many - 1 if until == inf else min(many - 1, int((until - first) // step))
        for place in range(begin, end + 1) if at < first + many * step else ():
            found[place] = max(found[place] or 0, number)
    return found
