"""Folders of programs that the user's shell, desktop or login, or the hub, starts: no line is proposed for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from patchbay.processes.confinement.program_denials import explain_denial, is_proposable
from patchbay.processes.confinement.programs import (
    REQUIRED,
    ProgramConfinement,
    ProgramPermissions,
    ProgramPlaces,
)
from tests.checkout import ROOT


@pytest.fixture(name="environ")
def _environ(tmp_path: Path) -> dict[str, str]:
    """The variables of a user with some folders of programs, and with one of notes."""
    for name in (".local/bin", ".local/share/systemd/user", ".cargo/bin", ".oh-my-zsh", "tools/bin", "notes"):
        (tmp_path / name).mkdir(parents=True)
    return {"HOME": str(tmp_path), "PATH": f"{tmp_path}/tools/bin:relative:/usr/bin"}


@pytest.mark.parametrize(
    "name",
    [
        *("~/.local/bin", "~/.local", "~/.local/share", "~/.local/share/systemd/user", "~/.cargo/bin", "~/.oh-my-zsh"),
        *("~/tools/bin", "~/tools", sys.prefix, str(ROOT / "patchbay" / "kinds"), str(ROOT)),
    ],
)
def test_no_line_opens_a_folder_of_programs_that_others_start_or_one_above_it(
    name: str, environ: dict[str, str]
) -> None:
    assert not is_proposable(name, environ, [])
    assert is_proposable("~/notes", environ, [])


def test_the_text_of_a_program_gets_no_line_for_the_python_of_the_hub(environ: dict[str, str], tmp_path: Path) -> None:
    places = ProgramPlaces(tmp_path / "data" / "programs", (tmp_path / "data",), confine=REQUIRED)
    confinement = ProgramConfinement("notes", places, ProgramPermissions(), environ)
    said = "EACCES: permission denied, open '{}/a.pth'"
    assert '"writes": ["' in explain_denial(confinement, said.format(tmp_path / "notes"))
    assert '"writes": ["' not in explain_denial(confinement, said.format(sys.prefix))
