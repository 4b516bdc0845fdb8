"""Functions that read a figure of a run: one that was measured, or one that is made of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.reporting.results import Row, Run

Figure = Callable[[Run], float | None]
"""Reads a figure of a run; None when it was not measured."""

Choice = Callable[[list[float]], float]
"""`min` or `max`."""


def read(part: str, subject: str, condition: str, name: str) -> Figure:
    """Read one figure."""
    return lambda run: run.figure(part, subject, condition, name)


def quotient(upper: Figure, lower: Figure) -> Figure:
    """Divide two figures; None when one was not measured or the divisor is 0."""

    def divide(run: Run) -> float | None:
        above, below = upper(run), lower(run)
        return above / below if above is not None and below else None

    return divide


def choose(choice: Choice, figures: Sequence[Figure]) -> Figure:
    """Choose one of several figures; None when one of them was not measured."""

    def chosen(run: Run) -> float | None:
        found = [one for figure in figures if (one := figure(run)) is not None]
        return choice(found) if found and len(found) == len(figures) else None

    return chosen


def choose_among(
    choice: Choice, part: str, name: str, subjects: Sequence[str] = (), condition: str | None = None
) -> Figure:
    """Choose one figure of the rows of a part: those of some subjects, or of all; under one condition, or under all."""

    def is_meant(row: Row) -> bool:
        is_subject = not subjects or row.subject in subjects
        return row.part == part and is_subject and condition in (None, row.condition)

    def chosen(run: Run) -> float | None:
        rows = filter(is_meant, run.rows)
        found = [row.figures[name] for row in rows if name in row.figures]
        return choice(found) if found else None

    return chosen
