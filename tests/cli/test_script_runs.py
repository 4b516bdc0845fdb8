"""`patchbay runs`: the state, the outcome and the end of a run that waits, at a running hub and at one elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
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
    assert "Next: decide on the page /approvals; " in text.err
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


def run_page(state: str = "", record: str | None = None, outcome: Any = None, **needs: str) -> dict[str, Any]:
    """What a hub says of a run, whose calls need these."""
    waits = [{"name": name, "line": line, "at": 0.0, "needs": need} for line, (name, need) in enumerate(needs.items())]
    return {"id": "0" * 16, "record": record, "state": state, "running": waits, "outcome": outcome}


@contextmanager
def answering(*pages: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A hub that answers with these pages one after the other, and then with the last one: the options for it."""
    left = list(pages)

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(left.pop(0) if len(left) > 1 else left[0]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield "--at", f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join(BOUND)


@pytest.mark.parametrize(
    ("page", "said", "code"),
    [
        (run_page("done", "1"), "The run has ended. Only its own caller gets the value. The page", exit_codes.OK),
        (run_page("expired"), "the decision, answer or account that it waited for did not come", exit_codes.FAILED),
        (run_page("running"), "The run goes on.", exit_codes.OK),
        (
            run_page("done", "1", {"calls": [], "failure": "", "note": "Call tidy again."}),
            "The run has ended. Call tidy again.",
            exit_codes.OK,
        ),
    ],
)
def test_a_run_without_its_value_for_the_reader_says_what_it_has(
    folder: Path, page: dict[str, Any], said: str, code: int
) -> None:
    with answering(page) as at:
        shown = run_command(folder, "runs", "show", "0" * 16, "--text", *at)
    assert said in shown.out and shown.code == code


def test_a_run_that_never_waited_is_waited_for_and_says_that_it_keeps_no_value(folder: Path) -> None:
    with answering(run_page(), run_page(), run_page(record="1")) as at:
        shown = run_command(folder, "runs", "show", "0" * 16, "--wait", *at)
    (told,) = map(json.loads, shown.out.splitlines())
    assert told["state"] == "ended" and shown.code == exit_codes.OK
    assert "It never waited for a person, so the hub keeps no value of it" in told["text"]
    assert f"/activity/runs/{'0' * 16}" in told["text"]


def test_a_run_that_waits_names_the_step_for_each_thing_that_it_waits_for(folder: Path) -> None:
    with answering(run_page("suspended", book="answer", whoami="account")) as at:
        shown = run_command(folder, "runs", "show", "0" * 16, "--text", *at)
    assert "an answer to book (line 0) and an account of its caller for whoami (line 1)" in shown.out
    assert "makes the same call again with a client that shows questions" in shown.err
    assert "connects the account on the page /upstreams" in shown.err and "/approvals" not in shown.err
