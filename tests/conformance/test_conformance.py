"""The official conformance suite: every scenario of every revision, with nothing that may fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.conformance.suite import LEGS, Leg, Outcomes, faults, outcomes_in, run
from tests.interaction.programs import Hub, running_hub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """A hub that was started as users start it, for all runs: it is not restarted between them."""
    with running_hub(tmp_path_factory.mktemp("conformance") / "hub") as hub:
        yield hub


@pytest.mark.process
@pytest.mark.node
@pytest.mark.parametrize("revision", LEGS)
def test_the_whole_suite_passes(hub: Hub, tmp_path: Path, revision: str) -> None:
    outcomes = run(hub.endpoint("everything"), revision, tmp_path / "suite", tmp_path)
    assert faults(outcomes, revision, LEGS[revision]) == []


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """A hub whose `everything` runs in processes of its own: the same definition and configuration, dropped in."""
    folder = tmp_path_factory.mktemp("isolated")
    boot = ROOT / "reference_templates"
    cid = json.loads((boot / "mcps.json").read_text("utf-8"))["everything"]["config_cid"]
    config = json.loads((boot / "cids" / cid).read_text("utf-8")) | {"isolation": "process"}
    (folder / "everything.mcp.json").write_text(json.dumps(config), "utf-8")
    parts = (boot / "servers" / "definitions" / "everything.py", folder / "everything.mcp.json")
    with running_hub(folder / "hub", parts) as hub:
        yield hub


@pytest.mark.process
@pytest.mark.node
@pytest.mark.parametrize("revision", LEGS)
def test_the_whole_suite_passes_in_processes_of_their_own(isolated: Hub, tmp_path: Path, revision: str) -> None:
    outcomes = run(isolated.endpoint("everything"), revision, tmp_path / "suite", tmp_path)
    assert faults(outcomes, revision, LEGS[revision]) == []


@pytest.mark.process
@pytest.mark.node
def test_what_needs_no_session_passes_with_two_workers(tmp_path: Path) -> None:
    with running_hub(tmp_path / "hub", options=("--workers", "2")) as hub:
        outcomes = run(hub.endpoint("everything"), "2026-07-28", tmp_path / "suite", tmp_path)
    assert faults(outcomes, "2026-07-28", LEGS["2026-07-28"]) == []


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
