"""`patchbay serve` as a program: starting, losing a worker, ending (THREATS M2 to M4, X1, X22)."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from patchbay.sqlite import known_defect
from tests.serving.running import alive, refused, running
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process


def test_it_says_where_it_is_once_it_is_ready(tmp_path: Path) -> None:
    with running(tmp_path) as hub:
        assert hub.line_with("Patchbay is at") == f"Patchbay is at http://127.0.0.1:{hub.port}/mcp\n"
        assert hub.get("/readyz")[0] == 200
        assert hub.get("/healthz")[0] == 200
        assert hub.end() == 0
        if known_defect() is None:
            assert not [line for line in hub.lines if "SQLite" in line or "WARN" in line.upper()]


def test_a_killed_worker_comes_back_while_the_others_answer(tmp_path: Path) -> None:
    """X1, M2: no request that begins after the loss is refused, and there are as many workers as before."""
    with running(tmp_path, "--workers", "2") as hub:
        until(lambda: hub.listening() == 2, "two workers take connections")
        before = hub.workers()
        lost = min(before)
        os.kill(lost, signal.SIGKILL)
        until(lambda: lost not in hub.workers(), "the killed worker is gone")
        assert hub.get("/readyz")[0] == 200
        until(lambda: len(hub.workers()) == 2 and lost not in hub.workers(), "a new worker in its place")
        assert hub.get("/readyz")[0] == 200
        assert hub.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_0(tmp_path: Path, number: signal.Signals) -> None:
    """X22: and no worker is left behind."""
    with running(tmp_path, "--workers", "2") as hub:
        workers = hub.workers()
        assert hub.end(number) == 0
        until(lambda: not any(alive(worker) for worker in workers), "every worker has ended")


def test_an_idle_connection_does_not_hold_it_up(tmp_path: Path) -> None:
    """The drain is longer than `end` waits: a hub that waited for the connection would fail this."""
    drain = ("--drain", str(10 * BOUND))
    with running(tmp_path, *drain) as hub, socket.create_connection(("127.0.0.1", hub.port), BOUND):
        assert hub.end() == 0


def test_workers_end_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, "--workers", "2") as hub:
        workers = hub.workers()
        hub.end(signal.SIGKILL)
        until(lambda: not any(alive(worker) for worker in workers), "every worker has ended")


def test_a_port_in_use_is_a_sentence_and_exit_code_3(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = refused(tmp_path, "--port", port)
    assert done.returncode == 3
    assert done.stderr == (
        f"patchbay: cannot listen on 127.0.0.1 port {port}: Address already in use; --port 0 chooses a free port\n"
    )


def test_a_second_hub_cannot_take_the_port_of_the_first(tmp_path: Path) -> None:
    with running(tmp_path) as hub:
        assert refused(tmp_path, "--port", str(hub.port)).returncode == 3
        assert hub.end() == 0


def test_a_boot_image_that_is_not_there_is_a_sentence_and_exit_code_2(tmp_path: Path) -> None:
    done = refused(tmp_path, "--boot", "no-such-boot")
    assert done.returncode == 2
    assert "no-such-boot" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_logs_are_json_lines_on_stderr_where_there_is_no_terminal(tmp_path: Path) -> None:
    with running(tmp_path, "--log-level", "debug") as hub:
        hub.get("/readyz")
        assert hub.end() == 0
    lines = [
        line for line in hub.lines if not line.startswith(("Patchbay is at", "Log in as the operator", "Next, in"))
    ]
    assert lines
    assert all("event" in json.loads(line) for line in lines)
