"""What the configuration of a mounted program opens: nothing of the hub itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.processes.confinement.landlock import version
from patchbay.processes.confinement.programs import (
    ProgramConfinement,
    ProgramPermissions,
    ProgramPlaces,
    active_program_protections,
    describe_missing_protections,
)
from patchbay.processes.confinement.protections import ALL, LANDLOCK, NAMESPACES
from patchbay.settings import Settings


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


def test_mounted_programs_are_confined_unless_a_setting_or_a_configuration_says_otherwise(hub: Path) -> None:
    assert Settings().confine == "default"
    has_protections = bool(active_program_protections(ALL))
    places = ProgramPlaces(hub / "data" / "programs")
    assert ProgramConfinement("notes", places, ProgramPermissions(), {}).is_on == has_protections
    off = ProgramConfinement("notes", places, ProgramPermissions(confine="off"), {})
    assert not off.is_on and "its configuration" in off.reason_off
    places = ProgramPlaces(hub / "data" / "programs", confine="off")
    off = ProgramConfinement("notes", places, ProgramPermissions(), {})
    assert not off.is_on and "the setting confine is off" in off.reason_off


@pytest.mark.parametrize(
    ("confine", "wanted", "said"),
    [
        ("off", ALL, "not confined: the setting confine is off"),
        ("default", (), "not confined: this machine has neither Landlock nor namespaces for users"),
        (
            "required",
            (),
            "do not start: the setting confine is required, and this machine lacks landlock and namespaces",
        ),
    ],
)
def test_what_the_confinement_of_programs_lacks_is_a_sentence(confine: str, wanted: tuple[str, ...], said: str) -> None:
    assert said in describe_missing_protections(confine, wanted, version())


@pytest.mark.parametrize("lacking", [LANDLOCK, NAMESPACES])
def test_a_machine_that_lacks_one_protection_says_what_is_not_protected(lacking: str) -> None:
    wanted = [name for name in ALL if name != lacking]
    said = describe_missing_protections("default", wanted, version())
    if not active_program_protections(wanted):
        assert "are not confined" in said
    else:
        assert ("ports" in said) == (lacking == LANDLOCK) and ("processes, sockets" in said) == (lacking == NAMESPACES)


def test_a_machine_with_all_protections_lacks_nothing() -> None:
    """Landlock restricts ports from version 4 on, and signals from version 6 on."""
    is_complete = version() >= 6 and active_program_protections(ALL) == (LANDLOCK, NAMESPACES)
    assert (describe_missing_protections("default", ALL, version()) == "") == is_complete
