"""`patchbay schedule`: the schedules of a running hub, and a run by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving.running import running

pytestmark = pytest.mark.process

DESK = '''
def greet(name: str) -> str:
    """Greet."""
    return f"hello {name}"


def fail() -> str:
    """Fail."""
    raise ValueError("no paper")
'''
CONFIG = {
    "tools": {
        "greet": {"schedule": "0 7 29 2 *", "arguments": {"name": "Ada"}},
        "fail": {"schedule": "@yearly", "timezone": "Europe/Berlin"},
    }
}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "patchbay", "schedule", *words, "--data", str(folder / "data")]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_lists_schedules_and_runs_one(tmp_path: Path) -> None:
    """36.1"""
    servers = tmp_path / "servers"
    servers.mkdir()
    (servers / "desk.py").write_text(DESK)
    (servers / "desk.mcp.json").write_text(json.dumps(CONFIG))
    with running(tmp_path, "--servers", str(servers)):
        listed = run(tmp_path, "list").stdout.splitlines()
        assert listed[0].split() == ["SERVER", "TOOL", "SCHEDULE", "ZONE", "NEXT", "LAST", "OUTCOME"]
        assert "never" in listed[1] and "Europe/Berlin" in listed[1]
        done = run(tmp_path, "run", "desk", "greet")
        assert (done.returncode, done.stdout) == (0, "hello Ada\n"), done.stderr
        failed = run(tmp_path, "run", "desk", "fail")
        assert (failed.returncode, failed.stdout) == (1, "ValueError: no paper\n")
        assert "desk.fail ended with the outcome tool_error" in failed.stderr
        unknown = run(tmp_path, "run", "desk", "none")
        assert unknown.returncode == 2 and "desk.none has no schedule" in unknown.stderr
        assert "desk.greet runs" in run(tmp_path, "run", "desk", "greet", "--no-wait").stdout
        rows = [json.loads(line) for line in run(tmp_path, "list", "--json").stdout.splitlines()]
        assert [one["runs"][0]["outcome"] for one in rows if one["tool"] == "fail"] == ["tool_error"]


def test_without_a_running_hub_the_command_says_what_to_start(tmp_path: Path) -> None:
    done = run(tmp_path, "list")
    assert done.returncode == 4 and "start `patchbay serve`" in done.stderr
