"""The interaction tests and the conversations of the wire, with three hubs behind nginx in place of each hub."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.checkout import ROOT

pytestmark = [pytest.mark.full, pytest.mark.process]


@pytest.mark.parametrize("where", ["tests/interaction", "tests/wire/front/test_conversations.py"])
def test_everything_that_works_on_one_machine_works_on_three(where: str) -> None:
    """35.23: each request reaches the next node."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nodes", "3", where]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
