"""What the configuration of a mounted program opens: nothing of the hub itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.processes.confinement.programs import ProgramConfinement, ProgramPermissions, ProgramPlaces


@pytest.fixture(name="hub")
def _hub(tmp_path: Path) -> Path:
    """A folder with the places of a hub, its code, and notes of its user."""
    for name in ("data/programs/notes", "data/programs/other", "servers", "code", "notes"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "key").write_text("a key")
    return tmp_path


def _confinement(hub: Path, permissions: ProgramPermissions, everywhere: tuple[str, ...] = ()) -> ProgramConfinement:
    hidden = (hub / "data", hub / "servers", hub / "key")
    places = ProgramPlaces(hub / "data" / "programs", hidden, (hub / "code",), writes=everywhere)
    return ProgramConfinement("notes", places, permissions, {"HOME": str(hub / "home")})


@pytest.mark.parametrize("name", ["data", "data/programs/other", "servers", "key", "code", "link"])
def test_writes_open_no_place_of_the_hub_itself(hub: Path, name: str) -> None:
    (hub / "link").symlink_to(hub / "servers")
    place, notes = str(hub / name), str(hub / "notes")
    for confinement in (
        _confinement(hub, ProgramPermissions(writes=(notes, place))),
        _confinement(hub, ProgramPermissions(writes=(notes,)), (place,)),
    ):
        paths = confinement.allowed_paths()
        assert [*map(str, paths.writes)] == [notes]
        assert paths.own == (confinement.own_folder,)
        assert confinement.refused_places() == [("writes", place)]
        assert f"{notes}." in confinement.sentence and place not in confinement.sentence.split("changes only")[1].split(
            ", "
        )


def test_reads_open_no_place_of_the_hub_itself(hub: Path) -> None:
    confinement = _confinement(hub, ProgramPermissions(reads=(str(hub / "key"), str(hub / "notes"))))
    assert confinement.refused_places() == [("reads", str(hub / "key"))]
    assert hub / "key" not in confinement.allowed_paths().shown


def test_the_own_folder_of_a_program_is_open_to_it_and_no_problem(hub: Path) -> None:
    confinement = _confinement(hub, ProgramPermissions(writes=(str(hub / "data" / "programs" / "notes"),)))
    assert confinement.refused_places() == []
    assert confinement.allowed_paths().own == (confinement.own_folder,)
