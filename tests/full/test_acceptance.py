"""Packages of PyPI and npm, one by one: inspected, called, mounted, called through the hub. Needs the registries."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.acceptance.packages import PACKAGES
from tests.checkout import ROOT

pytestmark = [pytest.mark.full, pytest.mark.process, pytest.mark.node]


@pytest.mark.parametrize("package", [package.name for package in PACKAGES])
def test_a_published_server_works_directly_and_through_the_hub(package: str) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.acceptance", package], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 packages worked" in done.stdout


def test_clients_of_npm_read_the_entry_that_install_writes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.acceptance", "--clients"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
