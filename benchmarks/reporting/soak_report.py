"""The result of a soak test (`benchmarks/soak.py`), as it is written to a file of JSON, read from it, and shown."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.reporting.results import ResultsError, read_json
from benchmarks.reporting.tables import Table

FORMAT = 1
"""Version of the file's format."""


@dataclass(frozen=True)
class Sample:
    """Memory (KiB) and open file descriptors of the workers, so many seconds after the start of the test."""

    seconds: float
    memory_kib: int
    descriptors: int


@dataclass(frozen=True)
class SoakReport:
    """The result of one soak test.

    began: date and time of the start (ISO 8601, UTC)
    machine: description of the machine and of the programs
    duration_seconds, listeners, calls_per_second, workers: the load, and the worker processes of the hub
    calls: answered calls
    wrong_answers: number of calls for each fault
    repeated_calls: requests sent again because a worker was full (503) or closed the connection
    changes: changes of the definition
    lost_notifications: streams that received no notification of a change within the time limit, over all changes
    slowest_notification_seconds: the longest time from a change until all its listeners had a notification
    replaced_workers: replacements of the workers by SIGHUP
    samples: memory and descriptors, taken while all listeners were connected
    """

    began: str
    machine: Mapping[str, str]
    duration_seconds: float
    listeners: int
    calls_per_second: float
    workers: int
    calls: int
    wrong_answers: Mapping[str, int]
    repeated_calls: int
    changes: int
    lost_notifications: int
    slowest_notification_seconds: float
    replaced_workers: int
    samples: Sequence[Sample]

    @property
    def is_correct(self) -> bool:
        """Whether every answer was right and every notification arrived in time."""
        return not self.wrong_answers and not self.lost_notifications


def write_soak(report: SoakReport, file: Path) -> None:
    """Write a report as JSON."""
    file.write_text(json.dumps({"format": FORMAT, **asdict(report)}, indent=1) + "\n", "utf-8")


def read_soak(file: Path) -> SoakReport:
    """Read a report. Raises ResultsError when the file is not one that `write_soak` wrote."""
    advice = "write the file with python -m benchmarks.soak --json"
    fields = read_json(file, advice)
    if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
        raise ResultsError(f"{file}: expected format {FORMAT} of a soak test; {advice}")
    try:
        samples = [Sample(**sample) for sample in fields.pop("samples")]
        return SoakReport(**fields, samples=samples)
    except (KeyError, TypeError) as problem:
        raise ResultsError(f"{file}: a field is missing or unknown: {problem}") from None


def soak_table(report: SoakReport) -> Table:
    """Make the table of a report: load, figures, date and machine."""
    faults = ", ".join(f"{count} {fault}" for fault, count in report.wrong_answers.items())
    rows = [
        ("began", "", report.began),
        ("duration", "s", f"{report.duration_seconds:,.0f}"),
        ("open streams", "", f"{report.listeners:,}"),
        ("calls each second", "", f"{report.calls_per_second:,.0f}"),
        ("worker processes", "", f"{report.workers}"),
        ("answered calls", "", f"{report.calls:,}"),
        ("wrong answers", "", faults or "0"),
        ("repeated calls", "", f"{report.repeated_calls:,}"),
        ("changes of a definition", "", f"{report.changes:,}"),
        ("lost notifications", "", f"{report.lost_notifications:,}"),
        ("slowest notification", "s", f"{report.slowest_notification_seconds:.2f}"),
        ("replacements of the workers", "", f"{report.replaced_workers}"),
        (
            "memory of the workers, minimum / median / maximum",
            "MiB",
            _spread([s.memory_kib / 1024 for s in report.samples]),
        ),
        ("descriptors, minimum / median / maximum", "", _spread([s.descriptors for s in report.samples])),
        *((name, "", value) for name, value in report.machine.items()),
    ]
    return Table("Soak", ("figure", "unit", "value"), rows)


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "not measured"
    return " / ".join(f"{value:,.0f}" for value in (min(values), statistics.median(values), max(values)))
