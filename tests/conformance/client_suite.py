"""The official suite's scenarios for clients, run against `client.py`, which is made of `patchbay.client`.

Rules: as in `suite.py`. A scenario that is known to fail stands in KNOWN with the reason, and has to fail.
`scripts/conformance --client --help` says how to use this file.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson

from tests.checkout import ROOT
from tests.conformance import forks
from tests.conformance.suite import BARE, NOTHING_MAY_FAIL, SUITE, Leg, Outcome, Outcomes, outcome_of, shown
from tests.interaction.peers import NODE
from tests.interaction.programs import plain_environment
from tests.waiting import until

LEGS: Mapping[str, Leg] = {
    "2025-03-26": Leg(2, 19),
    "2025-06-18": Leg(5, 60),
    "2025-11-25": Leg(19, 247),
    "2026-07-28": Leg(33, 411),
    BARE: Leg(48, 500),
}
"""Every run: how many scenarios, and how many successful checks at least."""

TIMEOUT = 300
"""Seconds for one client. All of a run's clients start at once."""

MAX_SHOWN = 2000
"""Characters of what a client wrote that a failure shows."""

_FOLDER = re.compile(r"(?P<scenario>.+?)-\d{4}-\d{2}-\d{2}T[^/]*")


@contextmanager
def client(home: Path) -> Iterator[str]:
    """The command of the client: it is imported once, and forked for each scenario."""
    place = home / "client.socket"
    holder = [sys.executable, "-m", forks.__name__, str(place), "tests.conformance.client"]
    process = subprocess.Popen(holder, cwd=ROOT, env=plain_environment(home))
    try:
        until(lambda: place.exists() or process.poll() is not None, "the client to be imported")
        yield f"{sys.executable} -I -S {forks.__file__} {place}"
    finally:
        process.terminate()
        process.wait()


def run(revision: str, folder: Path, home: Path, client: str) -> Outcomes:
    """Run every client scenario of a revision, or of all (`bare`); the suite's files go to `folder`.

    `client` is the command that is given the URL of each scenario.
    """
    folder.mkdir(parents=True, exist_ok=True)
    baseline = folder / "expected-failures.yml"
    baseline.write_text(NOTHING_MAY_FAIL, "utf-8")
    command = [str(NODE), str(SUITE), "client", "--command", client]
    command += ["--suite", "all", "--timeout", str(TIMEOUT * 1000), "--output-dir", str(folder)]
    command += ["--expected-failures", str(baseline)]
    command += [] if revision == BARE else ["--spec-version", revision]
    done = subprocess.run(command, cwd=ROOT, env=plain_environment(home), capture_output=True, text=True)
    outcomes = {(scenario, revision): outcome for scenario, outcome in outcomes_in(folder)}
    if not outcomes:
        raise RuntimeError(f"the suite wrote no results: {done.stderr or done.stdout}")
    if done.returncode:
        outcomes["the suite itself", revision] = Outcome(told=[f"FAILURE exit code {done.returncode}"])
    return outcomes


def outcomes_in(folder: Path) -> Iterable[tuple[str, Outcome]]:
    """Each scenario's name and outcome, from the files in a folder; a name may have a slash.

    A scenario that failed tells what its client wrote to standard error.
    """
    for file in sorted(folder.rglob("checks.json")):
        named = _FOLDER.fullmatch(file.parent.relative_to(folder).as_posix())
        assert named, f"{file.parent} is not a folder of a scenario"
        outcome = outcome_of(orjson.loads(file.read_bytes()))
        if outcome.told and (said := _read_errors(file.parent)):
            outcome.told.append(f"FAILURE the client wrote: {said}")
        yield named["scenario"], outcome


def _read_errors(folder: Path) -> str:
    """The end of what the client of a scenario wrote to standard error."""
    file = folder / "stderr.txt"
    return file.read_text("utf-8", "replace").strip()[-MAX_SHOWN:] if file.exists() else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; answers the exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts/conformance --client", description="Run the official suite's client scenarios."
    )
    parser.add_argument("--keep", type=Path, help="keep the suite's files in this folder")
    given = parser.parse_args(arguments)
    outcomes: Outcomes = {}
    with tempfile.TemporaryDirectory() as name, client(Path(name)) as command:
        for revision in LEGS:
            outcomes |= run(revision, (given.keep or Path(name)) / revision, Path(name), command)
    return shown(outcomes, LEGS)


if __name__ == "__main__":
    sys.exit(main())
