"""The official conformance suite: every scenario of the revisions with a handshake, with nothing that may fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.legs import HANDSHAKE_MOUNTS, HANDSHAKE_PROCESSES
from tests.conformance.mounting import run_through, scenarios_lost
from tests.conformance.suite import HANDSHAKE_LEGS, LEGS, Leg, Outcomes, faults, outcomes_in, run
from tests.interaction.programs import Hub


@pytest.mark.process
@pytest.mark.node
@pytest.mark.parametrize("revision", HANDSHAKE_LEGS)
def test_the_whole_suite_passes(direct: Callable[[str], Outcomes], revision: str) -> None:
    assert faults(direct(revision), revision, LEGS[revision]) == []


@pytest.mark.process
@pytest.mark.node
@pytest.mark.parametrize(("mounted", "revision"), HANDSHAKE_MOUNTS, indirect=["mounted"])
def test_what_passes_directly_passes_through_a_mount(
    direct: Callable[[str], Outcomes], mounted: Hub, tmp_path: Path, request: pytest.FixtureRequest, revision: str
) -> None:
    era = request.node.callspec.params["mounted"]
    through = run_through(mounted, era, revision, tmp_path)
    assert scenarios_lost(direct(revision), through, era) == {}


@pytest.mark.process
@pytest.mark.node
@pytest.mark.parametrize("revision", HANDSHAKE_PROCESSES)
def test_the_whole_suite_passes_in_processes_of_their_own(isolated: Hub, tmp_path: Path, revision: str) -> None:
    outcomes = run(isolated.endpoint("everything"), revision, tmp_path / "suite", tmp_path)
    assert faults(outcomes, revision, LEGS[revision]) == []


def checks(folder: Path, name: str, *statuses: str) -> None:
    """A file as the suite writes it."""
    (folder / name).mkdir()
    rows = [{"id": f"check-{n}", "description": "It holds.", "status": status} for n, status in enumerate(statuses)]
    (folder / name / "checks.json").write_text(json.dumps(rows))


def test_failures_warnings_empty_outcomes_and_missing_ones_are_faults(tmp_path: Path) -> None:
    checks(tmp_path, "server-good-one-2026-01-02T03-04-05-678Z", "SUCCESS", "SKIPPED", "INFO")
    checks(tmp_path, "server-bad-2026-01-02T03-04-05-678Z", "SUCCESS", "FAILURE")
    checks(tmp_path, "server-warned-2026-01-02T03-04-05-678Z", "SUCCESS", "WARNING")
    checks(tmp_path, "server-empty-2026-01-02T03-04-05-678Z", "SKIPPED")
    checks(tmp_path, "server-known-2026-01-02T03-04-05-678Z", "SKIPPED")
    found: Outcomes = {(name, "2026-07-28"): outcome for name, outcome in outcomes_in(tmp_path)}
    assert sorted(faults(found, "2026-07-28", Leg(6, 4, frozenset({"known"})))) == [
        "2026-07-28: 3 checks passed, at least 4 were expected",
        "2026-07-28: 5 scenarios ran, 6 were expected",
        "bad at 2026-07-28: FAILURE check-1: It holds.",
        "empty at 2026-07-28: showed nothing",
        "warned at 2026-07-28: WARNING check-1: It holds.",
    ]
