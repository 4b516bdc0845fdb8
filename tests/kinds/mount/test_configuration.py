"""Which program a mount starts: one command line has one folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.kinds.mount.configuration import mount_of
from patchbay.processes.confinement.programs import ProgramConfinement, ProgramPermissions, ProgramPlaces


def _folder(address: str) -> str:
    program = mount_of("notes", {"address": address}, "notes.json").program
    places = ProgramPlaces(Path("/programs"))
    return ProgramConfinement("notes", places, ProgramPermissions(), {}, program=program).own_folder.name


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ("npx -y @scope/notes@1.2.3", "npx -y @scope/notes@1.3.0-beta.1", True),
        ("npx -y notes@latest", "npx -y notes", True),
        ("uvx notes==1.0", "uvx notes==2.0", True),
        ("npx -y @scope/notes@1.2.3", "npx -y @other/notes@1.2.3", False),
        ("uvx notes==1.0", "uvx letters==1.0", False),
        ("python3 /srv/a.py", "python3 /srv/b.py", False),
        ("ssh me@1.example", "ssh me@2.example", False),
    ],
)
def test_another_program_under_the_same_name_gets_another_folder(one: str, other: str, are_same: bool) -> None:
    first, second = _folder(f"mcp+stdio:{one}"), _folder(f"mcp+stdio:{other}")
    assert first.startswith("notes-") and (first == second) == are_same
