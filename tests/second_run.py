"""Pytest plugin: with `--failed-again`, each failed test runs once more at the end, alone, in a new process.

A test that passes then is unstable. Up to `MAX_UNSTABLE` of them do not fail the run, and its last lines name them. A
test that fails again fails the run with both tracebacks. Errors of collection, errors of pytest, a run that was stopped
and tests that did not run are never forgiven.

The tests that one failure of a shared fixture made fail are one failure here: they run again in one process, one after
the other, and count once. pytest-rerunfailures runs a test again at once, beside the other tests and with the fixtures
that failed it, and has no limit for a whole run; a second `pytest --last-failed` prints a second summary.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest._code.code import ExceptionRepr

from tests.second_run_process import Listed, Outcome, RunOnce, outcomes

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

MAX_UNSTABLE = 3
"""Failures that may pass in the second run without failing the whole run."""

MAX_AGAIN = 10
"""Failures that run again. More than `MAX_UNSTABLE` failures fail the run in any case; this bounds its time."""

HELD = "to run again"
"""The category, in pytest's counts, of failures that are not decided yet."""

CAUSE = "number_of_cause"
"""The attribute of a failed report that numbers its exception within its process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("second run")
    group.addoption("--failed-again", action="store_true", help="run each failed test once more at the end, alone")
    group.addoption("--listed", metavar="FOLDER", help=f"internal: run the tests of FOLDER/{Listed.TESTS}")


def pytest_configure(config: pytest.Config) -> None:
    """Register what this process needs: a worker of pytest-xdist only numbers the causes of its failures."""
    if folder := config.getoption("--listed"):
        config.pluginmanager.register(Listed(config, Path(folder)))
    elif config.getoption("--failed-again"):
        config.pluginmanager.register(Causes())
        if hasattr(config, "workerinput"):
            config.pluginmanager.register(RunOnce(Path(config.workerinput[RunOnce.FOLDER])))
        else:
            config.pluginmanager.register(SecondRun(config))


class Causes:
    """Numbers the exceptions of failed set-ups: pytest raises that of a shared fixture again for each of its tests."""

    def __init__(self) -> None:
        self._raised: list[BaseException] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        report: pytest.TestReport = yield  # type: ignore[assignment]
        if report.failed and report.when == "setup" and call.excinfo is not None:
            error = call.excinfo.value
            if not any(error is other for other in self._raised):
                self._raised.append(error)
            setattr(report, CAUSE, next(n for n, other in enumerate(self._raised) if error is other))
        return report  # type: ignore[return-value]


class SecondRun:
    """Holds back the failures of a run, runs them again, and decides which of them count."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.reported: set[str] = set()
        self.internal_error = False
        self.running = tempfile.TemporaryDirectory(prefix="running-tests-")
        self.unstable: list[list[pytest.TestReport]] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        node.workerinput[RunOnce.FOLDER] = self.running.name

    def pytest_unconfigure(self) -> None:
        self.running.cleanup()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reported.add(report.nodeid)

    def pytest_internalerror(self) -> None:
        self.internal_error = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
        if not isinstance(report, pytest.TestReport) or not report.failed:
            return None
        return (HELD, "E", "ERROR") if report.when in ("setup", "teardown") else (HELD, "F", "FAILED")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        assert terminal is not None
        complete = False
        try:
            result = yield
            complete = not self.internal_error and len(self.reported) >= session.testscollected
        finally:
            held: list[pytest.TestReport] = terminal.stats.pop(HELD, [])
            if held and complete:
                held = self._decide(session, terminal, held)
            for report in held:
                category = "error" if report.when in ("setup", "teardown") else "failed"
                terminal._add_stats(category, [report])
        return result

    def _decide(
        self, session: pytest.Session, terminal: pytest.TerminalReporter, held: list[pytest.TestReport]
    ) -> list[pytest.TestReport]:
        """Run the failures again; return the reports that count as failures."""
        failures = group_by_cause(held)
        count = min(len(failures), MAX_AGAIN)
        terminal.write_line(f"\nRunning {count} of {len(failures)} failures again, each alone.", flush=True)
        for failure in failures[:MAX_AGAIN]:
            again = run_again(self.config, list(dict.fromkeys(report.nodeid for report in failure)))
            for report in failure:
                if not again[report.nodeid].passed:
                    add_second_traceback(report, again[report.nodeid].text)
            if passed := [report for report in failure if again[report.nodeid].passed]:
                self.unstable.append(passed)
        if len(self.unstable) > MAX_UNSTABLE:
            return held
        forgiven = [report for failure in self.unstable for report in failure]
        session.testsfailed -= len(forgiven)
        names = {report.nodeid for report in forgiven}
        # A test whose fixture failed afterwards has also passed, for pytest.
        terminal.stats["passed"] = [each for each in terminal.stats.get("passed", []) if each.nodeid not in names]
        terminal._add_stats("unstable", list({report.nodeid: report for report in reversed(forgiven)}.values()))
        return [report for report in held if report not in forgiven]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
        """Show the tracebacks of unstable tests above pytest's own summary, and their names below it."""
        if self.unstable:
            terminalreporter.section("first run of unstable tests")
        for report in (failure[0] for failure in self.unstable):
            terminalreporter.write_line(f"____ {report.nodeid}, {report.when}")
            terminalreporter.write_line(report.longreprtext)
            for name, content in report.sections:
                terminalreporter.write_line(f"---- {name}\n{content.rstrip()}")
        yield
        if not self.unstable:
            return
        terminalreporter.section("unstable")
        terminalreporter.write_line("These failed and then passed alone. Mend them in the next change.")
        for failure in self.unstable:
            terminalreporter.write_line(f"UNSTABLE {describe(failure)}")
        if len(self.unstable) > MAX_UNSTABLE:
            terminalreporter.write_line(f"{len(self.unstable)} are unstable, more than {MAX_UNSTABLE}: the run fails.")


def group_by_cause(held: list[pytest.TestReport]) -> list[list[pytest.TestReport]]:
    """Group failed reports: those of one test, and those of one exception of a shared fixture."""
    failures: dict[object, list[pytest.TestReport]] = {}
    cause_of_test: dict[str, object] = {}
    for report in held:
        number, worker = getattr(report, CAUSE, None), getattr(report, "worker_id", None)
        cause = report.nodeid if number is None else (worker, number)
        failures.setdefault(cause_of_test.setdefault(report.nodeid, cause), []).append(report)
    return list(failures.values())


def run_again(config: pytest.Config, tests: list[str]) -> dict[str, Outcome]:
    """Run these tests in a new process of pytest without workers; return their outcomes by node id."""
    with tempfile.TemporaryDirectory(prefix="second-run-") as name:
        folder = Path(name)
        (folder / Listed.TESTS).write_text(json.dumps(tests), "utf-8")
        files = dict.fromkeys(str(config.rootpath / test.partition("::")[0]) for test in tests)
        own = ["-c", str(config.inipath)] if config.inipath else []
        command = [sys.executable, "-m", "pytest", "-n0", f"--rootdir={config.rootpath}", f"--listed={folder}"]
        done = subprocess.run(
            [*command, *own, *files],
            cwd=config.invocation_params.dir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        return outcomes(config, folder, tests, done.returncode, done.stdout)


def add_second_traceback(report: pytest.TestReport, text: str) -> None:
    """Put what the second run showed below the traceback of the first."""
    title = "the second run, alone"
    if isinstance(report.longrepr, ExceptionRepr):
        report.longrepr.addsection(title, text, "_")
    else:
        report.longrepr = f"{report.longrepr}\n____ {title} ____\n{text}"


def describe(failure: list[pytest.TestReport]) -> str:
    """One line: the node id, how many tests failed with it, and the first line of the failure."""
    report = failure[0]
    others = len({each.nodeid for each in failure}) - 1
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr)
    more = f" and {others} more with the same fixture" if others else ""
    return f"{report.nodeid}{more} - {next(iter(text.strip().splitlines()), 'no text')}"
