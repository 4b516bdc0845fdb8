"""The limits and the view of the processes of a shell definition, and that no process of them stays."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from patchbay.activation import activate
from patchbay.events import Done, Event, Failed, Text
from patchbay.processes.limits import MAX_DESCRIPTORS, MAX_FILE_BYTES, Limits, limit_command
from patchbay.processes.sandbox import is_available
from tests.checkout import ROOT
from tests.kinds.calls import alive, call_of, events, shell
from tests.waiting import until

SANDBOXES = [False, True] if is_available() else [False]
"""Without bubblewrap, a command that requires the sandbox does not run: tests/processes/test_sandbox.py."""

MORE = "python3 -c 'x = bytearray({} * 1024 * 1024); print(len(x))'"


def run(source: str, left: float = 20.0, arguments: dict[str, Any] | None = None, **limits: Any) -> list[Event]:
    return events(shell(source, **limits), call_of(arguments, left=left, target={}))


def text(seen: list[Event]) -> str:
    return "".join(event.text for event in seen if isinstance(event, Text))


def test_a_process_gets_no_more_memory_than_it_may_fill() -> None:
    """A tool that uses too much memory fails alone."""
    assert text(run(MORE.format(20), memory=100)) == f"{20 * 1024 * 1024}\n"
    last = run(MORE.format(300), memory=100)[-1]
    assert isinstance(last, Failed) and "MemoryError" in last.message


def test_limits_hold_for_every_process_of_a_call() -> None:
    seen = text(run("ulimit -c; ulimit -n; ulimit -f; ulimit -d; bash -c 'ulimit -d'; ulimit -H -d", memory=64))
    blocks = MAX_FILE_BYTES // 1024
    assert seen.split() == ["0", str(MAX_DESCRIPTORS), str(blocks), *["65536"] * 3]


def test_processor_time_is_bounded_by_the_remaining_time_of_the_call() -> None:
    prefix = limit_command(Limits(), 10.0)
    assert prefix[:2] == ["/bin/sh", "-c"] and int(prefix[4]) >= 13 and prefix[5] == str(512 * 1024)
    assert 0 < int(text(run("ulimit -t", left=5.0))) < 24 * 60 * 60


CROWDED = """
import os, threading
from patchbay.activation import activate
from patchbay.processes.limits import MAX_PROCESSES
from patchbay.views.fold import fold
from tests.kinds.calls import call_of, shell

def text_of(handler):
    return fold(activate(handler, call_of(target={})))["content"][0]["text"].strip()

if os.getuid() == 0:
    text_of(shell("true; echo"))  # root may read the modules that a first call imports
    os.chdir("/")
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
handler = shell("sleep 0; ulimit -u")
threading.stack_size(64 * 1024)
ended = threading.Event()
for _ in range(MAX_PROCESSES + 100):
    threading.Thread(target=ended.wait, daemon=True).start()
print(int(text_of(handler)) > 2 * MAX_PROCESSES)
ended.set()
"""
UNUSED_USER = 54321


def test_processes_that_the_user_starts_elsewhere_take_nothing_from_a_command() -> None:
    """The kernel counts all processes and threads of a user, and exempts root."""
    code = CROWDED.replace("USER", str(UNUSED_USER))
    seen = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (seen.stdout, seen.stderr) == ("True\n", "")


def test_a_file_that_is_too_large_is_refused() -> None:
    """The file has a hole, so the test writes little."""
    assert run("truncate -s 1G file")[-1] == Done()
    last = run("truncate -s 2G file")[-1]
    assert isinstance(last, Failed) and "File size limit exceeded" in last.message


@pytest.mark.parametrize("hidden", ["", "exec > /dev/null 2>&1; "])
@pytest.mark.parametrize(
    "escape",
    [
        "setsid sleep 300 & echo $! > {file}",
        "setsid bash -c 'sleep 300 & echo $! > {file}; wait' &",
        "(setsid bash -c '(setsid sleep 300 & echo $! > {file}) &' &) ",
        "setsid nohup bash -c 'trap \"\" TERM HUP; echo $$ > {file}; while :; do sleep 1; done' < /dev/null &",
    ],
)
def test_a_process_outside_the_group_is_killed(escape: str, hidden: str, tmp_path: Path) -> None:
    """Fork and double-fork; no child is left."""
    file = tmp_path / "pid"
    source = hidden + escape.format(file=file) + f"\nuntil test -s {file}; do sleep 0.02; done"
    assert run(source)[-1] == Done()
    until(lambda: not alive(int(file.read_text())))


def test_a_process_outside_the_group_is_killed_when_the_call_is_cancelled(tmp_path: Path) -> None:
    """X-15, X-19."""
    file = tmp_path / "pid"
    call = call_of(target={})
    running = activate(shell(f"setsid sleep 300 & echo $! > {file}; echo begun; wait"), call)
    assert next(running) == Text("begun\n")
    call.cancelled.set("enough")
    assert list(running)[-1] == Failed("cancelled: enough")
    until(lambda: not alive(int(file.read_text())))


def test_calls_at_the_same_time_do_not_kill_each_others_processes() -> None:
    outcomes: list[Event] = []

    def work() -> None:
        outcomes.append(run("setsid sleep 0.3 & wait; echo done")[-1])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        run("true")
    for thread in threads:
        thread.join(20)
    assert outcomes == [Done()] * 4


LOOK = """
echo x > "$2/canary" 2>/dev/null
cat "$2/data/key" 2>/dev/null
echo inside > mine && cat mine
echo scratch > /tmp/"$3" && cat /tmp/"$3"
(exec 3<>/dev/tcp/127.0.0.1/"$1") 2>/dev/null && echo connected
exit 0
"""


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_sandboxed_command_has_its_own_folder_and_nothing_else(sandbox: bool, tmp_path: Path) -> None:
    """File escape; like Python, where bubblewrap works."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "key").write_text("secret\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = {"args": f"{server.getsockname()[1]} {tmp_path} {tmp_path.name}", "input": "x"}
        seen = run(LOOK, arguments=arguments, sandbox=sandbox, hidden=[tmp_path / "data"])
    assert seen[-1] == Done(), seen
    open_ones = ["secret", "inside", "scratch", "connected"]
    assert text(seen).split() == (["inside", "scratch"] if sandbox else open_ones)
    assert (tmp_path / "canary").exists() != sandbox
    Path("/tmp", tmp_path.name).unlink(missing_ok=True)


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_sandboxed_command_ends_streams_and_fails_like_any_other(sandbox: bool) -> None:
    assert run("cat; exit 3", arguments={"input": "in"}, sandbox=sandbox) == [
        Text("in"),
        Failed("tool ended with exit code 3"),
    ]
    (missing,) = run("@bash_command no-such-program", sandbox=sandbox)
    assert missing == Failed("the program 'no-such-program' is not installed here (exit code 127)")
    last = run("sleep 300", left=0.5, sandbox=sandbox)[-1]
    assert isinstance(last, Failed) and last.message.startswith("timed out")
