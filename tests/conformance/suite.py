"""The official conformance suite against the server `everything` of a hub that was started as users start it.

Rules: what a scenario showed is read from the `checks.json` files that the suite writes, never from its
text; a scenario that was expected and did not run is a failure, and so is a warning; nothing may fail.
`scripts/conformance --help` says how to use this file; the scenarios for clients are run by `client_suite.py`.
"""

from __future__ import annotations

import argparse
import json
import os
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
from tests.interaction.programs import NODES, plain_environment, running_hub

SUITE = PACKAGES / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
BARE = "bare"
"""The run without a revision: every scenario, extensions included, each in its own default revision."""


@dataclass(frozen=True)
class Leg:
    """What one run has to show: how many scenarios, how many successful checks at least, and what it may skip."""

    scenarios: int
    checks: int
    skipped: frozenset[str] = frozenset()


LEGS: Mapping[str, Leg] = {
    "2025-03-26": Leg(1, 3),
    "2025-06-18": Leg(27, 56),
    "2025-11-25": Leg(33, 83),
    "2026-07-28": Leg(40, 152),
    BARE: Leg(65, 275, frozenset({"tasks-status-notifications"})),
}
"""Every run of the suite. An extension that is not declared passes by skipping, so the counts are asserted."""

TIMED_LEGS = ("2026-07-28", BARE)
"""The legs with `subscriptions/listen`: its scenarios wait 1.5 seconds for a message."""

HANDSHAKE_LEGS = tuple(revision for revision in LEGS if revision not in TIMED_LEGS)
"""The legs of the revisions with a handshake, which have no such limits."""

NOTHING_MAY_FAIL = "server: []\nclient: []\n"
"""The list of expected failures: an empty one makes the suite strict about warnings too."""

_FOLDER = re.compile(r"server-(?P<scenario>.+?)-\d{4}-\d{2}-\d{2}T.*")


@dataclass
class Outcome:
    """What one scenario showed in one revision: how often each status, and what was said of the bad ones."""

    counts: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        shown = {"SUCCESS": "", "FAILURE": " failed", "WARNING": " warned", "SKIPPED": " skipped"}
        return ", ".join(f"{self.counts[status]}{word}" for status, word in shown.items() if self.counts[status])


Outcomes = dict[tuple[str, str], Outcome]
"""By scenario and revision."""


def run(url: str, revision: str, folder: Path, home: Path) -> Outcomes:
    """Run every scenario of a revision, or of all (`bare`); the suite's files go to `folder`."""
    chosen = ("--suite", "all") if revision == BARE else ("--suite", "all", "--spec-version", revision)
    return _run(url, chosen, revision, folder, home)


def run_scenarios(url: str, scenarios: Iterable[str], folder: Path, home: Path) -> Outcomes:
    """Run some scenarios, each in its own default revision (`bare`); the suite's files go below `folder`."""
    outcomes: Outcomes = {}
    for scenario in sorted(scenarios):
        outcomes |= _run(url, ("--scenario", scenario), BARE, folder / scenario, home)
    return outcomes


def _run(url: str, chosen: Sequence[str], revision: str, folder: Path, home: Path) -> Outcomes:
    folder.mkdir(parents=True, exist_ok=True)
    baseline = folder / "expected-failures.yml"
    baseline.write_text(NOTHING_MAY_FAIL, "utf-8")
    command = [str(NODE), str(SUITE), "server", "--url", url, *chosen, "--output-dir", str(folder)]
    command += ["--expected-failures", str(baseline)]
    done = subprocess.run(command, env=plain_environment(home), capture_output=True, text=True)
    outcomes = {(scenario, revision): outcome for scenario, outcome in outcomes_in(folder)}
    if not outcomes:
        raise RuntimeError(f"the suite wrote no results: {done.stderr or done.stdout}")
    if done.returncode:
        outcomes["the suite itself", revision] = Outcome(told=[f"FAILURE exit code {done.returncode}"])
    return outcomes


def outcomes_in(folder: Path) -> Iterable[tuple[str, Outcome]]:
    """Each scenario's name and outcome, from the files in a folder."""
    for file in sorted(folder.glob("*/checks.json")):
        named = _FOLDER.fullmatch(file.parent.name)
        assert named, f"{file.parent.name} is not a folder of a scenario"
        yield named["scenario"], outcome_of(json.loads(file.read_text("utf-8")))


def outcome_of(checks: Iterable[Mapping[str, str]]) -> Outcome:
    """The outcome of one scenario's checks."""
    outcome = Outcome()
    for check in checks:
        outcome.counts[check["status"]] += 1
        if check["status"] in ("FAILURE", "WARNING"):
            outcome.told.append(f"{check['status']} {check['id']}: {check.get('errorMessage', check['description'])}")
    return outcome


def faults(outcomes: Outcomes, revision: str, leg: Leg) -> list[str]:
    """A line for everything that one run has to show and did not."""
    shown = {scenario: outcome for (scenario, at), outcome in outcomes.items() if at == revision}
    lines = [f"{scenario} at {revision}: {line}" for scenario, outcome in shown.items() for line in outcome.told]
    for scenario, outcome in shown.items():
        if not outcome.told and not outcome.counts["SUCCESS"] and scenario not in leg.skipped:
            lines.append(f"{scenario} at {revision}: showed nothing")
    if len(shown) != leg.scenarios:
        lines.append(f"{revision}: {len(shown)} scenarios ran, {leg.scenarios} were expected")
    passed = sum(outcome.counts["SUCCESS"] for outcome in shown.values())
    if passed < leg.checks:
        lines.append(f"{revision}: {passed} checks passed, at least {leg.checks} were expected")
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


def run_all(url: str, revisions: Iterable[str], folder: Path) -> Outcomes:
    """Run the suite once for each revision; its files go to folders of these names."""
    outcomes: Outcomes = {}
    for revision in revisions:
        outcomes |= run(url, revision, folder / revision, folder)
    return outcomes


def shown(outcomes: Outcomes, legs: Mapping[str, Leg]) -> int:
    """Print what came of some legs, for people; answers the exit code."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table(outcomes, sorted({scenario for scenario, _ in outcomes}), list(legs)))
    wrong = [line for revision, leg in legs.items() for line in faults(outcomes, revision, leg)]
    for line in wrong:
        console.print(line, markup=False, highlight=False)
    total = sum((outcome.counts for outcome in outcomes.values()), Counter[str]())
    ran = ", ".join(f"{total[status]} {status}" for status in ("SUCCESS", "FAILURE", "WARNING", "SKIPPED"))
    console.print(f"{len(outcomes)} scenarios ran: {ran}", markup=False, highlight=False)
    return 1 if wrong else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; answers the exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts/conformance",
        description="Run the official conformance suite; with --client first, its scenarios for clients.",
    )
    parser.add_argument("--keep", type=Path, help="keep the suite's files in this folder")
    parser.add_argument("--nodes", type=int, default=1, help="so many hubs on one PostgreSQL, behind nginx")
    given = parser.parse_args(arguments)
    os.environ[NODES] = str(given.nodes)
    with tempfile.TemporaryDirectory() as name:
        folder = given.keep or Path(name)
        with running_hub(Path(name) / "hub") as hub:
            outcomes = run_all(hub.endpoint("everything"), LEGS, folder)
    return shown(outcomes, LEGS)


if __name__ == "__main__":
    sys.exit(main())
