"""What `tests/second_run.py` does in other processes: in workers of pytest-xdist, and in those of the second run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

MAX_TAIL_LINES = 60
"""Lines of output that are shown of a process that ended before a test did."""


@dataclass(frozen=True)
class Outcome:
    """How one test ended in its second run; `text` is its traceback, or the reason why it has no traceback."""

    passed: bool
    text: str


class RunOnce:
    """In a worker of pytest-xdist: does not run a test that ended another worker.

    Each worker notes the test that it runs in a file of its own. The scheduler gives the unfinished tests of a worker
    that ended to the others, also the test that ended it, until so many workers have ended that the whole run stops.
    """

    FOLDER = "folder_of_running_tests"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = folder / os.environ["PYTEST_XDIST_WORKER"]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if any(note.read_text("utf-8") == item.nodeid for note in self._folder.iterdir() if note != self._own):
            return True  # done, without a report: the report of the worker that ended is there
        self._own.write_text(item.nodeid, "utf-8")
        return None


class Listed:
    """Runs exactly the tests of a list, whatever other options select, and writes each report to a file."""

    TESTS = "tests.json"
    REPORTS = "reports.jsonl"

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._config = config
        self._wanted = frozenset(json.loads((folder / self.TESTS).read_text("utf-8")))
        self._reports = folder / self.REPORTS

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        wanted = [item for item in items if item.nodeid in self._wanted]
        yield
        items[:] = wanted

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._reports.open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")


def outcomes(config: pytest.Config, folder: Path, tests: list[str], code: int, output: str) -> dict[str, Outcome]:
    """Read the outcome of each test from the reports of a process that ended with `code`.

    A test passes when it ran to its end, as expected, and all of its reports pass; skipped is not passed.
    """
    path = folder / Listed.REPORTS
    reports: dict[str, list[pytest.TestReport]] = {test: [] for test in tests}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        report = config.hook.pytest_report_from_serializable(config=config, data=json.loads(line))
        reports[report.nodeid].append(report)
    tail = "\n".join(output.splitlines()[-MAX_TAIL_LINES:])
    unfinished = f"The process ended with code {code} before the test did:\n{tail}"
    return {test: _outcome(reports[test], unfinished) for test in tests}


def _outcome(reports: list[pytest.TestReport], unfinished: str) -> Outcome:
    if failed := [report for report in reports if report.failed]:
        return Outcome(False, "\n".join(f"{report.when}:\n{report.longreprtext}" for report in failed))
    if not any(report.when == "teardown" for report in reports):
        return Outcome(False, unfinished)
    if skipped := [report for report in reports if report.skipped and not hasattr(report, "wasxfail")]:
        return Outcome(False, f"skipped: {skipped[0].longrepr}")
    return Outcome(True, "")
