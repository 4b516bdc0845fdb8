"""Charts as shapes: convert numbers to positions in percent of the width and pixels of the height, for SVG in
templates.

An SVG with percentages and without a view box fits every width, with text in the size of the page. It needs no script
and no style of its own. A table on the page holds every number of a chart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import Any

PLOT_HEIGHT = 150
"""Pixels from the base line of a bar chart to its highest line."""

TOP_MARGIN = 18
"""Pixels above the highest line, for its label."""

TIME_LABELS = 4
"""Approximate number of times below a chart."""

KINDS = ("worked", "cancelled", "failed")
"""The parts of a bar, from bottom to top."""


def draw_bars(time: Mapping[str, Any], kinds: Sequence[str] = KINDS, line: str = "") -> dict[str, Any]:
    """Stacked bars over time, with one part for each of `kinds`; `line` names a value that is drawn as a line."""
    rows, step = time["bars"], time["step"]
    highest = max([sum(row[kind] for kind in kinds) for row in rows] + [row[line] or 0 for row in rows if line] + [1])
    top = _round_up(highest)
    width = 100 / len(rows)
    shapes, level = [], []
    for place, row in enumerate(rows):
        ground = TOP_MARGIN + PLOT_HEIGHT
        for kind in kinds:
            tall = row[kind] / top * PLOT_HEIGHT
            if tall:
                # A bar for a small value has at least two pixels.
                tall = max(tall, 2.0)
                ground -= tall
                shapes.append({"x": place * width, "y": ground, "width": width * 0.84, "height": tall, "kind": kind})
        if line and row[line] is not None:
            level.append(
                {"x": place * width, "width": width, "y": TOP_MARGIN + PLOT_HEIGHT - row[line] / top * PLOT_HEIGHT}
            )
    lines = [
        {"y": TOP_MARGIN + PLOT_HEIGHT - share * PLOT_HEIGHT, "label": _format_count(top * share)}
        for share in (0.5, 1.0)
        if top * share % 1 == 0
    ]
    return {
        "shapes": shapes,
        "level": level,
        "lines": lines,
        "ground": TOP_MARGIN + PLOT_HEIGHT,
        "times": _time_labels(rows, step),
    }


def list_spots(time: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The places of the bars that have calls: `x` and `width` in percent, `since`, `until`, and the calls in words."""
    rows, step = time["bars"], time["step"]
    width = 100 / len(rows)
    words = dict(zip(KINDS, ("succeeded", "cancelled", "failed"), strict=True))
    return [
        {
            "x": place * width,
            "width": width,
            "since": row["at"],
            "until": row["at"] + step,
            "words": ", ".join(f"{row[kind]} {words[kind]}" for kind in KINDS if row[kind]),
        }
        for place, row in enumerate(rows)
        if any(row[kind] for kind in KINDS)
    ]


def draw_spread(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Box plots of durations on one logarithmic scale: a line from p5 to p95, a box from p25 to p75, a mark at p50."""
    if not rows:
        return {"rows": [], "ticks": []}
    low = floor(log10(max(0.01, min(row["p5"] for row in rows))))
    high = max(low + 1, ceil(log10(max(0.01, *(row["max"] for row in rows)))))

    def place(ms: float) -> float:
        return min(100.0, max(0.0, (log10(max(ms, 0.01)) - low) / (high - low) * 100))

    drawn = [
        {label: place(row[label]) for label in ("p5", "p25", "p50", "p75", "p95", "max")} | {"row": row} for row in rows
    ]
    return {
        "rows": drawn,
        "ticks": [{"x": place(10.0**each), "label": format_duration(10.0**each)} for each in range(low, high + 1)],
    }


def add_shares(rows: Sequence[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
    """Rows with the width of a bar: the value `key` in percent of the largest value."""
    most = max([row[key] for row in rows], default=0) or 1
    return [{"row": row, "width": row[key] / most * 100} for row in rows]


def format_duration(ms: float) -> str:
    """A duration for people: `0.4 ms`, `12 ms`, `1.2 s`, `3 min`."""
    if ms < 10:
        return f"{ms:.2g} ms"
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.3g} s" if ms < 120_000 else f"{ms / 60_000:.0f} min"


def _time_labels(rows: Sequence[Mapping[str, Any]], step: float) -> list[dict[str, Any]]:
    many = len(rows)
    every = max(1, ceil(many / TIME_LABELS))
    form = "%H:%M:%S" if step < 15 else "%H:%M" if step < 43200 else "%d %b"
    # A label at the right end would leave the drawing.
    places = [place for place in range(0, many, every) if place < many * 0.8]
    return [
        {"x": place / many * 100, "label": datetime.fromtimestamp(rows[place]["at"], UTC).strftime(form)}
        for place in places
    ]


def _round_up(number: float) -> float:
    """Round up to 1, 2, 4, 6 or 10 times a power of ten."""
    size = 10.0 ** floor(log10(number))
    return next(each * size for each in (1, 2, 4, 6, 10) if each * size >= number - 1e-9)


def _format_count(number: float) -> str:
    return f"{number / 1000:g}k" if number >= 10_000 else f"{number:g}"
