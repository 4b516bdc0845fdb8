"""The official conformance suite against the server `everything` of a hub that was started as users start it.

Rules: what a scenario showed is read from the `checks.json` files that the suite writes, never from its
text; a scenario that was expected and did not run is a failure, and so is a warning.
`scripts/conformance --help` says how to use this file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.interaction.peers import NODE, PACKAGES
from tests.interaction.programs import plain_environment, running_hub

SUITE = PACKAGES / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
BARE = "bare"
"""The run without a revision: every scenario, extensions included, each in its own default revision."""

HANDSHAKE = REVISIONS[1:3]
SINCE_JUNE = REVISIONS[1:]
NOVEMBER = REVISIONS[2:3]
SINCE_NOVEMBER = REVISIONS[2:]
NEWEST = REVISIONS[3:]

EXPECTED: Mapping[str, Sequence[str]] = {
    "server-session-lifecycle": REVISIONS[:3],
    **dict.fromkeys(
        (
            *("server-initialize", "ping", "logging-set-level", "resources-subscribe", "resources-unsubscribe"),
            *("tools-call-with-logging", "tools-call-sampling", "tools-call-elicitation"),
        ),
        HANDSHAKE,
    ),
    **dict.fromkeys(
        (
            *("tools-list", "tools-call-simple-text", "tools-call-error", "tools-call-image", "tools-call-audio"),
            *("tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-with-progress"),
            *("resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read"),
            *("prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource"),
            *("prompts-get-with-image", "completion-complete"),
        ),
        SINCE_JUNE,
    ),
    **dict.fromkeys(("elicitation-sep1034-defaults", "elicitation-sep1330-enums"), NOVEMBER),
    **dict.fromkeys(("dns-rebinding-protection", "json-schema-2020-12", "server-sse-multiple-streams"), SINCE_NOVEMBER),
    **dict.fromkeys(
        (
            *("server-stateless", "caching", "sep-2164-resource-not-found", "http-header-validation"),
            "http-custom-header-server-validation",
            *(
                f"input-required-result-{name}"
                for name in (
                    *("basic-elicitation", "basic-sampling", "basic-list-roots", "request-state", "multi-round"),
                    *("multiple-input-requests", "missing-input-response", "non-tool-request", "result-type"),
                    *("unsupported-methods", "tampered-state", "capability-check", "ignore-extra-params"),
                    "validate-input",
                )
            ),
        ),
        NEWEST,
    ),
}
"""The scenarios that have to pass, with every revision that they exist for."""

_FOLDER = re.compile(r"server-(?P<scenario>.+?)-\d{4}-\d{2}-\d{2}T.*")


@dataclass
class Outcome:
    """What one scenario showed in one revision: how often each status, and what was said of the bad ones."""

    counts: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether it proved something and nothing went wrong."""
        return self.counts["SUCCESS"] > 0 and not self.told

    def __str__(self) -> str:
        shown = {"SUCCESS": "", "FAILURE": " failed", "WARNING": " warned", "SKIPPED": " skipped"}
        return ", ".join(f"{self.counts[status]}{word}" for status, word in shown.items() if self.counts[status])


Outcomes = dict[tuple[str, str], Outcome]
"""By scenario and revision."""


def run(url: str, revision: str, folder: Path, home: Path) -> Outcomes:
    """Run every scenario of a revision, or of all (`bare`); the suite's files go to `folder`."""
    command = [str(NODE), str(SUITE), "server", "--url", url, "--suite", "all", "--output-dir", str(folder)]
    command += [] if revision == BARE else ["--spec-version", revision]
    done = subprocess.run(command, env=plain_environment(home), capture_output=True, text=True)
    outcomes = {(scenario, revision): outcome for scenario, outcome in outcomes_in(folder)}
    if not outcomes:
        raise RuntimeError(f"the suite wrote no results: {done.stderr or done.stdout}")
    return outcomes


def outcomes_in(folder: Path) -> Iterable[tuple[str, Outcome]]:
    """Each scenario's name and outcome, from the files in a folder."""
    for file in sorted(folder.glob("*/checks.json")):
        named = _FOLDER.fullmatch(file.parent.name)
        assert named, f"{file.parent.name} is no folder of a scenario"
        yield named["scenario"], outcome_of(json.loads(file.read_text("utf-8")))


def outcome_of(checks: Iterable[Mapping[str, str]]) -> Outcome:
    """The outcome of one scenario's checks."""
    outcome = Outcome()
    for check in checks:
        outcome.counts[check["status"]] += 1
        if check["status"] in ("FAILURE", "WARNING"):
            outcome.told.append(f"{check['status']} {check['id']}: {check.get('errorMessage', check['description'])}")
    return outcome


def faults(outcomes: Outcomes, expected: Mapping[str, Sequence[str]]) -> list[str]:
    """A line for everything that was expected and not shown."""
    lines = []
    for scenario, revisions in expected.items():
        for revision in revisions:
            outcome = outcomes.get((scenario, revision))
            if outcome is None or not outcome.good:
                said = "did not run" if outcome is None else "; ".join(outcome.told) or "showed nothing"
                lines.append(f"{scenario} at {revision}: {said}")
    return lines


def table(outcomes: Outcomes, scenarios: Iterable[str], revisions: Sequence[str]) -> Table:
    """Scenarios by revision, with the number of checks that passed and what else there was."""
    shown = Table("scenario", *revisions)
    for scenario in scenarios:
        cells = [outcomes.get((scenario, revision)) for revision in revisions]
        shown.add_row(scenario, *(_cell(cell) for cell in cells))
    return shown


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    return str(outcome) if not outcome.told else f"[red]{outcome}[/red]"


def run_all(url: str, revisions: Sequence[str], folder: Path) -> Outcomes:
    """Run the suite once for each revision; its files go to folders of these names."""
    outcomes: Outcomes = {}
    for revision in revisions:
        outcomes |= run(url, revision, folder / revision, folder)
    return outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; answers the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/conformance", description="Run the official conformance suite.")
    parser.add_argument("scenarios", nargs="*", help="show these scenarios; otherwise those that have to pass")
    parser.add_argument("--all", action="store_true", help="show every scenario in all five runs, and gate nothing")
    parser.add_argument("--keep", type=Path, help="keep the suite's files in this folder")
    given = parser.parse_args(arguments)
    revisions = [*REVISIONS, BARE] if given.all else REVISIONS
    console = Console(width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory() as name:
        folder = given.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        with running_hub(Path(name) / "hub") as hub:
            outcomes = run_all(hub.endpoint("everything"), revisions, folder)
    expected = {name: EXPECTED.get(name, ()) for name in given.scenarios} or EXPECTED
    every = sorted({scenario for scenario, _ in outcomes})
    console.print(table(outcomes, every if given.all else expected, revisions))
    return report(console, outcomes, expected, gate=not given.all)


def report(console: Console, outcomes: Outcomes, expected: Mapping[str, Sequence[str]], gate: bool) -> int:
    """Say what went wrong; answers 1 when that matters."""
    wrong = faults(outcomes, expected)
    told = wrong if gate else [f"{name} at {at}: {line}" for (name, at), one in outcomes.items() for line in one.told]
    for line in told:
        console.print(line, markup=False, highlight=False)
    total = sum((outcome.counts for outcome in outcomes.values()), Counter[str]())
    ran = ", ".join(f"{total[status]} {status}" for status in ("SUCCESS", "FAILURE", "WARNING", "SKIPPED"))
    console.print(f"{len(outcomes)} scenarios ran: {ran}", markup=False, highlight=False)
    return 1 if gate and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
