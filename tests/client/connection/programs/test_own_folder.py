"""Relative paths of a command line, for a program that starts in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.client.addresses.targets import Stdio
from patchbay.client.connection.programs.own_folder import fix_paths


@pytest.mark.parametrize(
    "word", ["serve", "docs", "@scope/package", "https://a.example/x.py", "-v", "gone.py", "x" * 5000]
)
def test_a_word_that_names_no_existing_path_stays(tmp_path: Path, word: str) -> None:
    (tmp_path / "docs").mkdir()
    assert fix_paths(Stdio("node", (word,)), tmp_path).args == (word,)


@pytest.mark.parametrize("word", ["server.py", "docs/a.txt", ".", "--config=server.py"])
def test_a_relative_path_means_the_folder_of_the_hub(tmp_path: Path, word: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").touch()
    (tmp_path / "server.py").touch()
    option, equals, name = word.rpartition("=")
    assert fix_paths(Stdio("python", (word,)), tmp_path).args == (f"{option}{equals}{(tmp_path / name).absolute()}",)


def test_a_folder_that_the_target_names_is_the_base(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "server.py").touch()
    fixed = fix_paths(Stdio("./run", ("server.py",), {}, "inner"), tmp_path)
    assert fixed.args == (str(tmp_path / "inner" / "server.py"),)
    assert (fixed.command, fixed.cwd) == (str(tmp_path / "inner" / "run"), str(tmp_path / "inner"))
