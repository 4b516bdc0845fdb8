"""Tests that are needed before a release only run with `--full`: runs of pytest on a small file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT

pytestmark = pytest.mark.slow

TESTS = """
import pytest

@pytest.mark.full
@pytest.mark.parametrize("leg", range(3))
def test_long(leg): pass

def test_short(): pass
"""


def run(folder: Path, *options: str) -> list[str]:
    """Run pytest with the plugin; return the last lines."""
    (folder / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT}\naddopts = -p xdist --strict-markers\nmarkers = full\n"
    )
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.full_runs"]\n')
    (folder / "test_a.py").write_text(TESTS)
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()[-2:]


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_they_are_left_out_and_the_run_says_how_many(tmp_path: Path, workers: str) -> None:
    line, summary = run(tmp_path, workers)
    assert line == "3 tests are left out; scripts/test --full runs all (marker full)"
    assert "1 passed" in summary


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_with_full_all_run_and_nothing_is_said(tmp_path: Path, workers: str) -> None:
    line, summary = run(tmp_path, workers, "--full")
    assert "left out" not in line
    assert "4 passed" in summary


def test_only_those_count_that_would_run_otherwise(tmp_path: Path) -> None:
    line, summary = run(tmp_path, "-n0", "-k", "test_short or long and 1")
    assert line == "1 test is left out; scripts/test --full runs all (marker full)"
    assert "1 passed" in summary
