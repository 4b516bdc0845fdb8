"""The legs of the official suite with scenarios that wait 1.5 seconds for a message, with nothing that may fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.legs import TIMED_MOUNTS, TIMED_PROCESSES
from tests.conformance.mounting import run_through, scenarios_lost
from tests.conformance.suite import LEGS, TIMED_LEGS, Outcomes, faults, run
from tests.interaction.programs import Hub, running_hub

pytestmark = [pytest.mark.alone, pytest.mark.process, pytest.mark.node]


@pytest.mark.parametrize("revision", TIMED_LEGS)
def test_the_whole_suite_passes(direct: Callable[[str], Outcomes], revision: str) -> None:
    assert faults(direct(revision), revision, LEGS[revision]) == []


@pytest.mark.parametrize(("mounted", "revision"), TIMED_MOUNTS, indirect=["mounted"])
def test_what_passes_directly_passes_through_a_mount(
    direct: Callable[[str], Outcomes], mounted: Hub, tmp_path: Path, request: pytest.FixtureRequest, revision: str
) -> None:
    era = request.node.callspec.params["mounted"]
    through = run_through(mounted, era, revision, tmp_path)
    assert scenarios_lost(direct(revision), through, era) == {}


@pytest.mark.parametrize("revision", TIMED_PROCESSES)
def test_the_whole_suite_passes_in_processes_of_their_own(isolated: Hub, tmp_path: Path, revision: str) -> None:
    outcomes = run(isolated.endpoint("everything"), revision, tmp_path / "suite", tmp_path)
    assert faults(outcomes, revision, LEGS[revision]) == []


@pytest.mark.full
def test_scenarios_without_sessions_pass_with_two_workers(tmp_path: Path) -> None:
    with running_hub(tmp_path / "hub", options=("--workers", "2")) as hub:
        outcomes = run(hub.endpoint("everything"), "2026-07-28", tmp_path / "suite", tmp_path)
    assert faults(outcomes, "2026-07-28", LEGS["2026-07-28"]) == []
