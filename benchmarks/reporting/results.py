"""The figures of one run, as they are written to a file of JSON and read from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1
"""Version of the file's format."""


class ResultsError(ValueError):
    """A file of results cannot be read; the message says where and what was expected."""


@dataclass(frozen=True)
class Row:
    """Figures of one subject (`patchbay inline`) under one condition (`2026-07-28, 16 connections`) in one part.

    The name of a figure ends with its unit: `processor_us`, `p99_ms`.
    """

    part: str
    subject: str
    condition: str
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Run:
    """One run: when it began (ISO 8601, UTC), on which machine, how long it measured, its rows.

    `failures` has the error of each part that failed. `is_quick` marks a run that only shows that everything works.
    """

    began: str
    machine: Mapping[str, str]
    effort: Mapping[str, Any]
    is_quick: bool
    rows: Sequence[Row]
    failures: Mapping[str, str] = field(default_factory=dict)

    def figure(self, part: str, subject: str, condition: str, name: str) -> float | None:
        """Return one figure; None when it was not measured."""
        for row in self.rows:
            if (row.part, row.subject, row.condition) == (part, subject, condition):
                return row.figures.get(name)
        return None


def write_run(run: Run, file: Path) -> None:
    """Write a run as JSON."""
    file.write_text(json.dumps({"format": FORMAT, **asdict(run)}, indent=1) + "\n", "utf-8")


def read_json(file: Path, advice: str) -> Any:
    """Read the JSON of a file. Raises ResultsError, which ends with `advice`."""
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as problem:
        raise ResultsError(f"{file}: cannot read JSON: {problem}; {advice}") from None


def read_run(file: Path) -> Run:
    """Read a run. Raises ResultsError when the file is not one that `write_run` wrote."""
    found = read_json(file, "write the file with scripts/bench --json")
    if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
        raise ResultsError(f"{file}: expected format {FORMAT}; write the file again with scripts/bench --json")
    try:
        rows = [Row(**row) for row in found.pop("rows")]
        return Run(**found, rows=rows)
    except (KeyError, TypeError) as problem:
        raise ResultsError(f"{file}: a field is missing or unknown: {problem}") from None
