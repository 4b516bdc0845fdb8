"""The official conformance suite: the scenarios that have to pass do, at every revision that they exist for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.suite import EXPECTED, REVISIONS, Outcomes, faults, outcomes_in, run_all
from tests.interaction.programs import running_hub

CELLS = [(scenario, revision) for scenario, revisions in EXPECTED.items() for revision in revisions]


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Every scenario of every revision, run once against a hub that was started as users start it."""
    folder = tmp_path_factory.mktemp("conformance")
    with running_hub(folder / "hub") as hub:
        return run_all(hub.endpoint("everything"), REVISIONS, folder)


@pytest.mark.process
@pytest.mark.node
@pytest.mark.parametrize(("scenario", "revision"), CELLS)
def test_the_scenario_passes(outcomes: Outcomes, scenario: str, revision: str) -> None:
    assert faults(outcomes, {scenario: [revision]}) == []


def test_the_list_of_scenarios_is_whole() -> None:
    assert (len(EXPECTED), len(CELLS)) == (51, 100)


def checks(folder: Path, name: str, *statuses: str) -> None:
    """A file as the suite writes it."""
    (folder / name).mkdir()
    rows = [{"id": f"check-{n}", "description": "It holds.", "status": status} for n, status in enumerate(statuses)]
    (folder / name / "checks.json").write_text(json.dumps(rows))


def test_failures_warnings_and_empty_outcomes_are_faults(tmp_path: Path) -> None:
    checks(tmp_path, "server-good-one-2026-01-02T03-04-05-678Z", "SUCCESS", "SKIPPED", "INFO")
    checks(tmp_path, "server-bad-2026-01-02T03-04-05-678Z", "SUCCESS", "FAILURE")
    checks(tmp_path, "server-warned-2026-01-02T03-04-05-678Z", "SUCCESS", "WARNING")
    checks(tmp_path, "server-empty-2026-01-02T03-04-05-678Z", "SKIPPED")
    found: Outcomes = {(name, "2026-07-28"): outcome for name, outcome in outcomes_in(tmp_path)}
    expected = {name: ["2026-07-28"] for name in ("good-one", "bad", "warned", "empty", "absent")}
    assert faults(found, expected) == [
        "bad at 2026-07-28: FAILURE check-1: It holds.",
        "warned at 2026-07-28: WARNING check-1: It holds.",
        "empty at 2026-07-28: showed nothing",
        "absent at 2026-07-28: did not run",
    ]
