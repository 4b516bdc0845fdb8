"""The official suite against three hubs on one PostgreSQL behind nginx, each request at the next hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.legs import ON_NODES
from tests.conformance.suite import LEGS, faults, run
from tests.interaction.balanced import running_nodes
from tests.interaction.programs import Hub

pytestmark = [pytest.mark.alone, pytest.mark.process, pytest.mark.node]

NODES = 3


@pytest.fixture(scope="module")
def balanced_hubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("nodes")
    (folder / "servers").mkdir()
    with running_nodes(folder, folder / "servers", (), ("--enable", "everything"), None, NODES) as hub:
        yield hub


@pytest.mark.parametrize("revision", ON_NODES)
def test_the_whole_suite_passes_on_three_nodes(balanced_hubs: Hub, tmp_path: Path, revision: str) -> None:
    """35.23: without affinity."""
    outcomes = run(balanced_hubs.endpoint("everything"), revision, tmp_path / "suite", tmp_path)
    assert faults(outcomes, revision, LEGS[revision]) == []
