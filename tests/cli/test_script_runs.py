"""`patchbay runs`: the state, the outcome and the end of a run that waits, at a running hub and at one elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay import exit_codes
from patchbay.access.approval_gate import ApprovalGate
from tests.cli.servers.commands import run_command
from tests.scripting.closing import CODE, FILES
from tests.serving.running import Hub, running
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("runs")
    (found / "servers").mkdir()
    for name, text in FILES.items():
        (found / "servers" / name).write_text(text)
    (found / "script.py").write_text(CODE)
    return found


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[Hub]:
    with running(folder, "--workers", "1") as started:
        yield started


@pytest.fixture
def at(hub: Hub, folder: Path) -> tuple[str, ...]:
    """The options for the hub as one elsewhere, with a key."""
    header = hub.as_operator()["Authorization"]
    return ("--at", f"http://127.0.0.1:{hub.port}/mcp/issues", "--header", f"Authorization: {header}")


def begin(folder: Path, at: tuple[str, ...], place: Path) -> tuple[str, subprocess.Popen[str]]:
    """Run the script in a process of its own until it waits; the id of its run, and the process."""
    inputs = ("--input", f"folder={place}", "--input", "count=2")
    words = [sys.executable, "-m", "patchbay", "run", str(folder / "script.py"), *at, *inputs, "--text"]
    environment = {**os.environ, "PATCHBAY_DATA": str(folder / "data"), "HOME": str(folder)}
    command = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    return str(until(lambda: waiting(folder), "the question")[0]["run"]), command


def waiting(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_command(folder, "approvals", "list", "--json").out.splitlines()]


def test_the_outcome_of_a_run_is_printed_later_and_its_state_before(
    hub: Hub, folder: Path, at: tuple[str, ...], tmp_path: Path
) -> None:
    run, command = begin(folder, at, tmp_path)
    for place in ((), at):
        shown = json.loads(run_command(folder, "runs", "show", run, *place).out)
        assert (shown["state"], [one["name"] for one in shown["waiting"]]) == ("suspended", ["issues.close"] * 2)
        (listed,) = map(json.loads, run_command(folder, "runs", "list", *place).out.splitlines())
        assert (listed["run"], listed["state"], listed["server"]) == (run, "suspended", "issues")
    assert f"{run}  run_script of issues, by " in (rows := run_command(folder, "runs", "list", "--text").out)
    assert ": waits for a person until " in rows
    text = run_command(folder, "runs", "show", run, "--text")
    assert text.out.startswith("The run waits for an approval of issues.close (line") and text.code == exit_codes.OK
    assert f"`patchbay runs cancel {run}` ends the run" in text.err
    assert run_command(folder, "approvals", "approve", waiting(folder)[0]["question"]).code == exit_codes.OK
    assert command.communicate(timeout=BOUND)[0] == 'looking\n["closed 1","closed 2"]\n'
    later = run_command(folder, "runs", "show", run, "--wait", "--text", *at)
    assert (later.out, later.code) == ('looking\n["closed 1","closed 2"]\n', exit_codes.OK)
    first = json.loads(run_command(folder, "runs", "show", run).out.splitlines()[0])
    assert first["structuredContent"]["run"] == run and len(first["structuredContent"]["calls"]) == 3
    again = run_command(folder, "runs", "cancel", run, *at)
    assert again.code == exit_codes.FAILED and "it has ended, or it never waited" in again.err


def test_a_run_is_cancelled_and_its_command_says_so(
    hub: Hub, folder: Path, at: tuple[str, ...], tmp_path: Path
) -> None:
    run, command = begin(folder, at, tmp_path)
    ended = run_command(folder, "runs", "cancel", run, *at)
    assert (ended.out, ended.code) == (f"The run {run} is cancelled.\n", exit_codes.OK)
    said = command.communicate(timeout=BOUND)[0]
    assert "the run was cancelled by operator" in said and command.returncode == exit_codes.FAILED
    later = run_command(folder, "runs", "show", run, "--text")
    assert "the run was cancelled by operator" in later.out and later.code == exit_codes.FAILED
    assert waiting(folder) == [] and not (tmp_path / "closed").exists()


def test_a_command_whose_script_waits_too_long_says_how_to_go_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ApprovalGate.__init__, "__defaults__", (0.0,))
    own = tmp_path / "own"
    own.mkdir()
    inputs = ("--input", f"folder={tmp_path}", "--input", "count=1")
    variables = {"PATCHBAY_SERVERS": str(folder / "servers")}
    ended = run_command(own, "run", str(folder / "script.py"), "--server", "issues", *inputs, variables=variables)
    (run,) = re.findall(r"\(run ([0-9a-f]{16})\)", ended.out)
    assert f"`patchbay runs show {run} --wait` has its value" in ended.err and ended.code == exit_codes.FAILED
    away = run_command(own, "runs", "show", run)
    assert away.code == exit_codes.UNREACHABLE and "no hub runs on this data folder" in away.err


def test_a_wrong_run_and_a_wrong_address_say_what_was_expected(hub: Hub, folder: Path, at: tuple[str, ...]) -> None:
    for place in ((), at):
        missing = run_command(folder, "runs", "show", "0123456789abcdef", *place)
        assert missing.code == exit_codes.USAGE and "0123456789abcdef: expected a run of your own" in missing.err
    wrong = run_command(folder, "runs", "cancel", "0123456789abcdef", "--at", "https://hub.example/sse")
    assert wrong.code == exit_codes.USAGE and "expected the URL of an endpoint of a hub" in wrong.err
    header = run_command(folder, "runs", "show", "0123456789abcdef", "--header", "X-Key: secret")
    assert header.code == exit_codes.USAGE and "--header: expected --at" in header.err and "secret" not in header.err
