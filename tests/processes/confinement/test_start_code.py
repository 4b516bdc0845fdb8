"""A confined program starts with the code that the hub has read, also after the files of the hub were changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.checkout import ROOT

STARTER = """
import os, sys
from pathlib import Path
import patchbay
from patchbay.processes.confined_command import confined_command
from patchbay.processes.confinement.programs import ProgramConfinement, ProgramPermissions, ProgramPlaces
from patchbay.processes.program import run

package, folder = Path(patchbay.__file__).parent, Path(sys.argv[1])
confinement = ProgramConfinement("started", ProgramPlaces(folder / "programs"), ProgramPermissions(), os.environ)
assert confinement.is_on

def start():
    words = [sys.executable, "-c", "print('it runs in', __import__('os').getcwd())"]
    with confined_command(confinement, words, {}, {}, folder) as command:
        return b"".join(piece[1] for piece in run(command) if piece).decode().strip()

print(start())
for file in (package / "processes").rglob("*.py"):
    file.write_text("raise SystemExit('another version')")
print(start())
"""


def test_a_program_starts_after_the_files_of_the_running_hub_were_changed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "patchbay", tmp_path / "hub" / "patchbay", ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "work"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", STARTER, str(folder)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "hub")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines() == [f"it runs in {folder}"] * 2, done.stderr
