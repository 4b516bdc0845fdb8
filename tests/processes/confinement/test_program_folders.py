"""The folders that the hub makes for a confined program, which may replace all that is inside its own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.processes.confinement.program_plans import plan_start
from patchbay.processes.confinement.programs import (
    ConfinementMissing,
    ProgramConfinement,
    ProgramPermissions,
    ProgramPlaces,
)

PROGRAM = "/usr/bin/env"


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Path:
    """A home folder with the stores of npm and uv, which are laid below those of a program."""
    for name in (".npm", ".cache/uv", "notes"):
        (tmp_path / "home" / name).mkdir(parents=True)
    return tmp_path / "home"


def _confinement(home: Path) -> ProgramConfinement:
    places = ProgramPlaces(home.parent / "data" / "programs", wanted=())
    return ProgramConfinement("notes", places, ProgramPermissions(), {"HOME": str(home)})


def _start(confinement: ProgramConfinement) -> Path:
    return plan_start(confinement, [PROGRAM], {}, {}, None).temporary


def test_a_start_removes_nothing_through_a_link_that_the_program_has_left(home: Path) -> None:
    confinement = _confinement(home)
    first = _start(confinement)
    for name in (".tmp", "tmp"):
        if not (confinement.own_folder / name).exists():
            (confinement.own_folder / name).symlink_to(home)
    _start(confinement)
    assert (home / "notes").is_dir()
    assert not first.is_relative_to(confinement.own_folder)


def test_a_start_removes_the_temporary_folder_of_a_hub_that_was_killed(home: Path) -> None:
    confinement = _confinement(home)
    first = _start(confinement)
    left = first.with_name("999999999-left")
    left.mkdir()
    _start(confinement)
    assert first.is_dir() and not left.exists()


@pytest.mark.parametrize("name", [".cache", ".cache/uv", ".cache/uv.work", ".npm", ".npm.work"])
def test_a_start_makes_no_store_through_a_link_that_the_program_has_left(home: Path, name: str) -> None:
    confinement = _confinement(home)
    link = confinement.own_folder / name
    link.parent.mkdir(parents=True)
    link.symlink_to(home / "notes")
    with pytest.raises(ConfinementMissing, match="is a link or a file, and the hub follows no link there"):
        _start(confinement)
    assert not [*(home / "notes").iterdir()]


def test_an_own_folder_that_is_a_link_is_refused(home: Path) -> None:
    confinement = _confinement(home)
    confinement.own_folder.parent.mkdir(parents=True)
    confinement.own_folder.symlink_to(home)
    with pytest.raises(ConfinementMissing, match="is a link"):
        _start(confinement)
