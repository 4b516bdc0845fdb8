"""Plots as shapes: numbers become places in percent of a width and pixels of a height, for templates to draw as SVG.

A drawing without a view box, whose places are percentages, fits every width with letters of the page's own size. It
needs no script and no style of its own. Every number that a plot shows stands in a table beside or behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import Any

HEIGHT = 150
"""Pixels from the ground of a plot of bars to its top."""

TOP = 18
"""Pixels above it, for the label of the highest line."""

LABELS = 4
"""Times under a plot, about."""

KINDS = ("worked", "cancelled", "failed")
"""What bars are made of, from the ground up."""


def bars(time: Mapping[str, Any], kinds: Sequence[str] = KINDS, line: str = "") -> dict[str, Any]:
    """Bars over time, with the values of `kinds` on top of each other; `line` names a value that is drawn as a line."""
    rows, step = time["bars"], time["step"]
    highest = max([sum(row[kind] for kind in kinds) for row in rows] + [row[line] or 0 for row in rows if line] + [1])
    top = _round(highest)
    width = 100 / len(rows)
    shapes, level = [], []
    for place, row in enumerate(rows):
        ground = TOP + HEIGHT
        for kind in kinds:
            tall = row[kind] / top * HEIGHT
            if tall:
                # What is there can be seen, however little it is.
                tall = max(tall, 2.0)
                ground -= tall
                shapes.append({"x": place * width, "y": ground, "width": width * 0.84, "height": tall, "kind": kind})
        if line and row[line] is not None:
            level.append({"x": place * width, "width": width, "y": TOP + HEIGHT - row[line] / top * HEIGHT})
    lines = [
        {"y": TOP + HEIGHT - share * HEIGHT, "label": _short(top * share)}
        for share in (0.5, 1.0)
        if top * share % 1 == 0
    ]
    return {"shapes": shapes, "level": level, "lines": lines, "ground": TOP + HEIGHT, "times": _times(rows, step)}


def spread(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Durations of each row on one logarithmic scale: a line from p5 to p95, a box from p25 to p75, a mark at p50."""
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


def with_shares(rows: Sequence[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
    """Rows with the share in percent that one of their values has of the largest."""
    most = max([row[key] for row in rows], default=0) or 1
    return [{"row": row, "width": row[key] / most * 100} for row in rows]


def format_duration(ms: float) -> str:
    """A duration for people: `0.4 ms`, `12 ms`, `1.2 s`, `3 min`."""
    if ms < 10:
        return f"{ms:.2g} ms"
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.3g} s" if ms < 120_000 else f"{ms / 60_000:.0f} min"


def _times(rows: Sequence[Mapping[str, Any]], step: float) -> list[dict[str, Any]]:
    many = len(rows)
    every = max(1, ceil(many / LABELS))
    form = "%H:%M:%S" if step < 15 else "%H:%M" if step < 43200 else "%d %b"
    # The last one would run out of the drawing.
    places = [place for place in range(0, many, every) if place < many * 0.8]
    return [
        {"x": place / many * 100, "label": datetime.fromtimestamp(rows[place]["at"], UTC).strftime(form)}
        for place in places
    ]


def _round(number: float) -> float:
    """The next number that is easy to read: 1, 2, 4, 6, 10 and these times ten."""
    size = 10.0 ** floor(log10(number))
    return next(each * size for each in (1, 2, 4, 6, 10) if each * size >= number - 1e-9)


def _short(number: float) -> str:
    return f"{number / 1000:g}k" if number >= 10_000 else f"{number:g}"
