"""A process that hides its memory from another process of the same user; both without administrator rights."""

from __future__ import annotations

import subprocess
import sys

import pytest

from patchbay.processes.confinement.kernel import LINUX
from tests.checkout import ROOT

HIDES = """
import sys
from patchbay.processes.confinement.kernel import drop_capabilities
from patchbay.processes.confinement.protections import protect_hub
drop_capabilities()
protect_hub(sys.argv[1:])
print("ready", flush=True)
sys.stdin.read()
"""
READS = """
import sys
from pathlib import Path
from patchbay.processes.confinement.kernel import drop_capabilities
drop_capabilities()
Path(sys.argv[1]).read_bytes()
"""


@pytest.mark.parametrize("names", [["privacy"], ["landlock"]])
def test_a_hidden_process_is_not_read_by_another_one_of_its_user(names: list[str]) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HIDES, *names], cwd=ROOT, stdin=pipe, stdout=pipe) as hub:
        assert hub.stdout is not None
        assert hub.stdout.readline() == b"ready\n"
        run = [sys.executable, "-c", READS, f"/proc/{hub.pid}/environ"]
        found = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        hub.communicate(b"")
    assert ("PermissionError" in found.stderr) == (LINUX and "privacy" in names), found.stderr
