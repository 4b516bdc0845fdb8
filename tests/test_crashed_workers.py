"""A worker that ends in the middle of a test is replaced, and each other test runs: runs of pytest on small files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT

pytestmark = pytest.mark.slow

ONE_PASSES = "def test_one(): pass\n"
LATE = """
import os
from pathlib import Path
from tests.waiting import until

COLLECTED = Path(__file__).parent / "gw3.collected"

def pytest_collection() -> None:
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw2":
        until(COLLECTED.exists)

def pytest_collection_finish() -> None:
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw3":
        COLLECTED.touch()
"""
"""The first of two new workers collects its tests after the second one."""

PASSES = ONE_PASSES + "def test_two(): pass\n"
ENDS = "import os\ndef test_ends(): os._exit(1)\n"


def run(folder: Path, workers: str, **files: str) -> list[str]:
    """Run pytest with the plugin on test files whose texts are given; return the last lines of its output."""
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\naddopts = -p xdist --dist loadfile\n")
    with (folder / "conftest.py").open("a") as file:
        file.write('pytest_plugins = ["tests.crashed_workers"]\n')
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "--no-loadscope-reorder", workers]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=environment)
    return done.stdout.splitlines()[-2:]


@pytest.mark.parametrize(
    ("workers", "files", "counts"),
    [
        pytest.param("-n2", {"a": PASSES, "b": PASSES, "c": ENDS}, "1 failed, 4 passed", id="the last test"),
        pytest.param("-n1", {"a": PASSES, "b": ENDS + ONE_PASSES}, "1 failed, 3 passed", id="one test is left"),
        pytest.param("-n1", {"a": PASSES, "b": ENDS + PASSES, "c": PASSES}, "1 failed, 6 passed", id="a file is left"),
    ],
)
def test_each_test_but_the_one_that_ends_its_worker_passes(
    tmp_path: Path, workers: str, files: dict[str, str], counts: str
) -> None:
    """Such a worker ends at the time limit of a test; a run that waited for its files would have no end."""
    *_, named, last = run(tmp_path, workers, **files)
    assert "test_ends" in named
    assert last.strip("= ").startswith(counts)


def test_two_workers_that_end_at_once_are_replaced_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(LATE)
    *_, last = run(tmp_path, "-n2", a=ENDS, b=ENDS + PASSES)
    assert last.strip("= ").startswith("2 failed, 2 passed")
