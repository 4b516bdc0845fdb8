"""The Python scripts of the repository say how they are used, and change nothing then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT

SCRIPTS = sorted(
    path.stem for path in (ROOT / "scripts").glob("*.py") if '__name__ == "__main__"' in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_is_printed_and_no_file_is_written(name: str, tmp_path: Path) -> None:
    """50.22: `scripts/single_file.py --help` wrote a file of that name."""
    command = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), "--help"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("usage: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_unknown_option_is_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    """50.22"""
    command = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), "--nonsense"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert list(tmp_path.iterdir()) == []
