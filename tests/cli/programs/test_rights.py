"""What a program may do that a command line starts: which own folder it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.cli.programs.rights import confine_typed
from patchbay.client.addresses.targets import Stdio
from patchbay.processes.confinement.programs import ProgramPermissions, ProgramPlaces


def own_folders(words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch, cwd: str | None) -> set[Path]:
    """Return the own folders of a command line that is typed in two folders."""
    found = set()
    for name in ("a", "b"):
        (folder / name).mkdir(exist_ok=True)
        monkeypatch.chdir(folder / name)
        target = Stdio(words[0], words[1:], {}, cwd)
        found.add(confine_typed(target, ProgramPlaces(folder / "own"), ProgramPermissions(), {}).own_folder)
    return found


@pytest.mark.parametrize(
    ("words", "cwd"),
    [
        (("python3", "server.py"), None),
        (("python3", "server.py"), "sub"),
        (("./server",), None),
        (("uvx", "--from", ".", "server"), None),
        (("npx", "file:./server"), None),
        (("uv", "run", "--with", "mcp", "server.py"), None),
    ],
)
def test_a_relative_command_line_in_two_folders_has_two_own_folders(
    words: tuple[str, ...], cwd: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(own_folders(words, tmp_path, monkeypatch, cwd)) == 2


@pytest.mark.parametrize(
    ("words", "cwd"),
    [
        (("uvx", "mcp-server-git@1.2", "--db=/srv/a.db"), None),
        (("npx", "-y", "@scope/server"), None),
        (("python3", "server.py"), "/srv"),
    ],
)
def test_a_package_of_a_registry_and_a_given_folder_have_one_own_folder_everywhere(
    words: tuple[str, ...], cwd: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(own_folders(words, tmp_path, monkeypatch, cwd)) == 1
