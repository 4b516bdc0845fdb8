"""`patchbay serve` as a program: starting, losing a worker, ending (THREATS M2 to M4, X1, X22)."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from patchbay.serving.respawning import MAX_SHORT_LIVES
from patchbay.sqlite import known_defect
from tests.serving.running import ONE_WORKER, Hub, alive, refused, running
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--confine", "off"), "mounted programs are not confined: the setting confine is off"),
        (("--protections", "privacy"), "mounted programs are not confined: this machine has neither"),
    ],
)
def test_it_says_at_its_start_what_the_confinement_of_programs_lacks(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    with running(tmp_path, *options) as hub:
        assert hub.line_with(said)
        assert hub.end() == 0


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


HOLD = """import os
import time


def process() -> str:
    return str(os.getpid())


def hold(until: str) -> str:
    while not os.path.exists(until):
        time.sleep(0.01)
    return "done"
"""


def request_of(tool: str, **arguments: str) -> tuple[str, str, bytes, dict[str, str]]:
    """A call of a tool of the server `held`, as arguments of `HTTPConnection.request`."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    return "POST", "/mcp/held", json.dumps(body).encode(), headers


def connect_to(hub: Hub, worker: int) -> http.client.HTTPConnection:
    """A connection that this worker serves."""
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
        connection.request(*request_of("process"))
        if json.loads(connection.getresponse().read())["result"]["content"][0]["text"] == str(worker):
            return connection
        connection.close()


def test_a_worker_ends_with_the_supervisor_while_a_younger_one_still_has_a_call(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "held.py").write_text(HOLD)
    (tmp_path / "servers" / "held.mcp.json").write_text('{"isolation": "inline", "auto_discover": true}')
    with running(tmp_path, "--workers", "2", "--drain", str(BOUND)) as hub:
        older, younger = sorted(hub.workers())
        connection = connect_to(hub, younger)
        connection.request(*request_of("hold", until=str(tmp_path / "release")))
        hub.process.kill()
        until(lambda: not alive(older), "the older worker has ended")
        assert alive(younger)
        (tmp_path / "release").touch()
        assert b"done" in connection.getresponse().read()
        connection.close()
        until(lambda: not alive(younger), "the younger worker has ended")


@pytest.mark.full
def test_workers_that_end_at_once_again_and_again_end_the_hub_with_code_1(tmp_path: Path) -> None:
    """The pauses between the replacements take half a minute; `test_respawning.py` shows what is counted."""
    killed: set[int] = set()
    with running(tmp_path, *ONE_WORKER) as hub:
        while hub.process.poll() is None and len(killed) < 2 * MAX_SHORT_LIVES:
            for worker in hub.workers() - killed:
                killed.add(worker)
                os.kill(worker, signal.SIGKILL)
        assert hub.finished() == 1
        assert len(killed) == MAX_SHORT_LIVES
        assert "workers in a row ended" in hub.line_with("workers in a row ended")


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
