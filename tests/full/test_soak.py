"""The soak test, shortened: many listeners, steady calls, a definition that changes, workers that are replaced."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.checkout import ROOT

pytestmark = [pytest.mark.full, pytest.mark.process]

OPTIONS = ("--minutes", "2", "--listeners", "1000", "--rate", "100", "--replace", "30")


def test_in_two_minutes_no_answer_is_wrong_and_no_notification_is_lost() -> None:
    command = [sys.executable, "-m", "benchmarks.soak", *OPTIONS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
