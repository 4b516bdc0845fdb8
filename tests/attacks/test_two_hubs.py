"""Two hubs on one data folder: the second one is refused with a sentence, and the first one continues.

flock(2).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from patchbay.store import DATABASE_FILE as FILE
from tests.checkout import ROOT
from tests.serving.running import refused, running
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process


def patchbay(folder: Path, servers: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that opens the hub of this data folder in its own process."""
    settings = ["--data", str(folder / "data"), "--servers", str(servers)]
    command = [sys.executable, "-m", "patchbay", *arguments, *settings]
    return subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOUND, check=False
    )


def test_a_second_hub_is_refused_and_the_first_one_and_its_workers_go_on(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with running(tmp_path, "--workers", "2") as hub:
        until(lambda: hub.listening() == 2, "two workers share the data folder")
        second = refused(tmp_path)
        assert second.returncode == 2
        assert second.stdout == ""
        [line] = second.stderr.splitlines()
        assert f"the data folder {tmp_path / 'data'} is in use by another hub" in line
        assert f"(process {hub.process.pid})" in line
        assert line.endswith("stop it, or start this one with another folder (--data)")

        piped = patchbay(tmp_path, other, "stdio")
        assert piped.returncode == 2
        assert f"--servers {tmp_path / 'servers'}" in piped.stderr
        assert len(piped.stderr.splitlines()) == 1

        # A client that starts its own process beside the running hub, with the same settings, is served.
        assert patchbay(tmp_path, tmp_path / "servers", "stdio").returncode == 0
        assert hub.get("/readyz")[0] == 200
        assert hub.end() == 0
    with running(tmp_path, "--servers", str(other)) as hub:
        assert hub.end() == 0


def test_a_killed_hub_leaves_no_lock_behind(tmp_path: Path) -> None:
    with running(tmp_path) as hub:
        hub.process.kill()
        hub.process.wait(BOUND)
        with running(tmp_path) as next_one:
            assert next_one.get("/readyz")[0] == 200
            assert next_one.end() == 0


def test_a_hub_with_a_deleted_database_reports_it(tmp_path: Path) -> None:
    sentence = "has the key of a hub that ran before, but its database is empty"
    with running(tmp_path) as hub:
        assert hub.end() == 0
        assert not [line for line in hub.lines if sentence in line]
    with running(tmp_path) as hub:
        assert hub.end() == 0
        assert not [line for line in hub.lines if sentence in line]
    for file in (tmp_path / "data").glob(f"{FILE}*"):
        file.unlink()
    with running(tmp_path) as hub:
        assert hub.end() == 0
        # Each worker that finds the empty database reports it.
        found = [line for line in hub.lines if sentence in line]
        assert found and all(str(tmp_path / "data") in line for line in found)
