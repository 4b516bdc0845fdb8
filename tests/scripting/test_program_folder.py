"""The folder of the programs of scripts: a killed hub leaves one, and the next start removes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from patchbay.scripting.program_folder import PREFIX, ProgramFolder
from tests.checkout import ROOT

HOLD = """
import sys

from patchbay.scripting.program_folder import ProgramFolder

print(ProgramFolder().path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_stays(temporary: Path) -> None:
    words = [sys.executable, "-c", HOLD]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        assert left.parent == temporary and left.is_dir()
        first = ProgramFolder()
        assert left.is_dir() and first.path.is_dir()
        os.kill(process.pid, signal.SIGKILL)
    assert left.is_dir()
    second = ProgramFolder()
    assert not left.exists() and first.path.is_dir() and second.path.is_dir()
    first.close()
    second.close()
    second.close()
    assert not list(temporary.iterdir())


def test_a_folder_that_may_be_of_something_else_stays(temporary: Path) -> None:
    without_lock = temporary / f"{PREFIX}other"
    without_lock.mkdir()
    linked = temporary / f"{PREFIX}linked"
    linked.mkdir()
    (temporary / "file").touch()
    (linked / "lock").symlink_to(temporary / "file")
    ProgramFolder().close()
    assert without_lock.is_dir() and linked.is_dir()
