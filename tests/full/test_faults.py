"""Every fault of `benchmarks.faults` at its usual length: outages that are longer than a write waits."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.faults.cluster import NO_FAKETIME, find_faketime
from benchmarks.faults.faults import FAULTS
from benchmarks.faults.packets import has_namespaces
from tests.checkout import ROOT

pytestmark = [pytest.mark.full, pytest.mark.process]


@pytest.mark.parametrize("name", FAULTS)
def test_nothing_is_wrong_lost_doubled_or_without_an_end(name: str) -> None:
    """35.7: the program measures and judges."""
    if name == "clocks" and find_faketime() is None:
        pytest.skip(NO_FAKETIME)
    if name == "packets" and not has_namespaces():
        pytest.skip("network namespaces need root")
    command = [sys.executable, "-m", "benchmarks.faults", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
