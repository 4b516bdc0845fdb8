"""The official suite's client scenarios of every revision and of the extensions, with nothing that may fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.client_suite import LEGS, client, outcomes_in, run
from tests.conformance.suite import BARE, faults

pytestmark = pytest.mark.alone

ALWAYS = (BARE, "2025-11-25")
"""The legs of each run: every scenario in the revision that the suite chooses, and the newest one with a handshake."""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command of the client, which is held ready for all runs."""
    with client(tmp_path_factory.mktemp("client")) as command:
        yield command


@pytest.mark.process
@pytest.mark.node
@pytest.mark.parametrize(
    "revision", [pytest.param(leg, marks=() if leg in ALWAYS else pytest.mark.full, id=leg) for leg in LEGS]
)
def test_every_client_scenario_passes(tmp_path: Path, command: str, revision: str) -> None:
    """JN-1, JN-70: a small program made of the client passes what the suite has for clients."""
    outcomes = run(revision, tmp_path / "suite", tmp_path, command)
    assert faults(outcomes, revision, LEGS[revision]) == []


def test_a_scenario_in_a_folder_keeps_its_whole_name(tmp_path: Path) -> None:
    folder = tmp_path / "auth" / "2025-03-26-oauth-metadata-backcompat-2026-01-02T03-04-05-678Z"
    folder.mkdir(parents=True)
    (folder / "checks.json").write_text("[]")
    assert [name for name, _ in outcomes_in(tmp_path)] == ["auth/2025-03-26-oauth-metadata-backcompat"]
