"""Numbers about calls, out of their records: how many over time, how long they took, which tools are slow.

Pure functions of records and moments. Quantiles are of the records that were given, by the nearest rank; nothing is
estimated. Times are Unix seconds, durations milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil, inf
from typing import Any

from patchbay.activity.records import Record

WORKED = frozenset(("ok", "asked", "task"))
FAILED = frozenset(("is_error", "error", "timeout"))
"""The rest was cancelled."""

STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 7 * 86400)
"""Seconds that one bar of a plot may stand for."""

BARS = 60
"""Bars of one plot, at most."""

TOOLS = 10
"""Tools that one plot shows."""

RANKS = (("p5", 0.05), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))


def over_time(
    records: Sequence[Record], begin: float, end: float, listening: Sequence[tuple[float, int]] = ()
) -> dict[str, Any]:
    """Calls in steps of equal length: how many began and how they ended, most at once, most streams listening.

    `listening` are the changes of the number of open streams, oldest first; before the first it is unknown (None).
    """
    step = next((each for each in STEPS if (end - begin) / each <= BARS - 1), STEPS[-1])
    first = int(begin // step) * step
    many = min(BARS, int((end - first) // step) + 1)
    bars: list[dict[str, Any]] = [
        {"at": first + place * step, "worked": 0, "failed": 0, "cancelled": 0, "at_once": 0, "listening": None}
        for place in range(many)
    ]
    for record in records:
        place = int((record.at - first) // step)
        if 0 <= place < many:
            bars[place][ended(record)] += 1
    for bar, most in zip(bars, _most([*_at_once(records)], first, step, many), strict=True):
        bar["at_once"] = most or 0
    for bar, most in zip(bars, _most(listening, first, step, many), strict=True):
        bar["listening"] = most
    return {"step": step, "bars": bars}


def ended(record: Record) -> str:
    """`worked`, `failed` or `cancelled`."""
    return "worked" if record.outcome in WORKED else "failed" if record.outcome in FAILED else "cancelled"


def by_tool(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Each tool (prompt, resource) that was called: how often, how many failed, and how long its calls took."""
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.server, record.method, record.name].append(record)
    return [_row(*key, group) for key, group in groups.items()]


def most_called_tools(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools that were called most."""
    return sorted(rows, key=lambda row: (-row["calls"], row["server"], row["name"]))[:TOOLS]


def slowest(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools whose slow calls are slowest: by the duration that 95 of 100 calls keep to."""
    return sorted(rows, key=lambda row: (-row["p95"], row["server"], row["name"]))[:TOOLS]


def _row(server: str, method: str, name: str, group: Sequence[Record]) -> dict[str, Any]:
    took = sorted(record.ms for record in group)
    ranks = {label: took[max(0, ceil(share * len(took)) - 1)] for label, share in RANKS}
    failed = sum(record.outcome in FAILED for record in group)
    plain = {"server": server, "method": method, "name": name, "calls": len(group), "failed": failed}
    return plain | {"seconds": round(sum(took) / 1000, 6)} | ranks


def _at_once(records: Iterable[Record]) -> Iterable[tuple[float, int]]:
    """Changes of how many calls were being answered."""
    changes = sorted(
        change for each in records for change in ((each.at, 1), (each.at + max(each.ms, 0.001) / 1000, -1))
    )
    running = 0
    for at, by in changes:
        running += by
        yield at, running


def _most(changes: Sequence[tuple[float, int]], first: float, step: float, many: int) -> list[int | None]:
    """The most that a changing number was in each step; None where it is not known yet."""
    found: list[int | None] = [None] * many
    ends = [at for at, _ in changes[1:]] + [inf] * bool(changes)
    for (at, number), until in zip(changes, ends, strict=True):
        begin = max(0, int((at - first) // step))
        end = many - 1 if until == inf else min(many - 1, int((until - first) // step))
        for place in range(begin, end + 1) if at < first + many * step else ():
            found[place] = max(found[place] or 0, number)
    return found
