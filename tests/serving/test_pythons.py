"""`scripts/pythons`: which Pythons of a machine the suite can run with, so that the oldest and the newest are tried."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.checkout import ROOT


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_the_oldest_python_stands_first_and_the_newest_last(tmp_path: Path) -> None:
    path, kept = tmp_path / "bin", tmp_path / ".pyenv" / "versions" / "3.99.10" / "bin"
    program(path, "python3.12", "echo 3.99.9 nine")
    program(path, "python3", "echo 3.11.0 first")
    program(path, "python3.13", "exit 127")
    program(kept, "python3.14", "echo 3.99.10 ten")
    environment = {"PATH": f"{path}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    lines = subprocess.run(
        [ROOT / "scripts" / "pythons"], env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert (lines[0], lines[-2:]) == ("3.11.0 first", ["3.99.9 nine", "3.99.10 ten"])


def test_continuous_integration_takes_the_oldest_python() -> None:
    """The oldest that is promised is what a change breaks first."""
    words = (ROOT / ".ci" / "run").read_text("utf-8")
    assert 'scripts/pythons" | head -n 1' in words and 'PATCHBAY_PYTHON="${PATCHBAY_PYTHON:-$oldest}"' in words
