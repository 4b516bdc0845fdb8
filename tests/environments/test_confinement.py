"""How uv is confined while it makes an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.environments.confinement import UvConfinement, confine_uv
from patchbay.processes.confinement.programs import DEFAULT, REQUIRED, ProgramPlaces
from patchbay.processes.confinement.protections import LANDLOCK, NAMESPACES

BOTH = (LANDLOCK, NAMESPACES)


def confined(folder: Path, wanted: tuple[str, ...], builds: bool, confine: str = REQUIRED) -> UvConfinement:
    places = ProgramPlaces(folder / "programs", wanted=wanted, confine=confine)
    return confine_uv(places, {"HOME": str(folder / "home")}, folder / "work", folder / "cache", builds)


@pytest.mark.parametrize("builds", [False, True], ids=["wheels", "builds"])
def test_a_hub_that_requires_confinement_installs_packages(tmp_path: Path, builds: bool) -> None:
    assert confined(tmp_path, BOTH, builds).confinement.refusal == ""


@pytest.mark.parametrize(
    ("wanted", "builds"),
    [((NAMESPACES,), False), ((), False), ((LANDLOCK,), True), ((NAMESPACES,), True)],
    ids=["wheels without Landlock", "wheels without both", "builds without namespaces", "builds without Landlock"],
)
def test_a_hub_that_requires_confinement_installs_nothing_without_it(
    tmp_path: Path, wanted: tuple[str, ...], builds: bool
) -> None:
    assert "this machine lacks" in confined(tmp_path, wanted, builds).confinement.refusal
    assert confined(tmp_path, wanted, builds, DEFAULT).confinement.refusal == ""
