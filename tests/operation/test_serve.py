"""`patchbay serve` as a program: starting, losing a worker, draining, ending (THREATS M2 to M5, X1, X22)."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BOUND = 30.0
"""Seconds that any wait of these tests may take."""

pytestmark = pytest.mark.process


class Hub:
    """A running hub: its process, its port, and the lines it has written to standard error."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        line = self.line_with("Patchbay is at ")
        self.port = int(line.rsplit(":", 1)[1].split("/")[0])

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.lines.append(line)
                self._more.notify_all()

    def line_with(self, text: str) -> str:
        """The first line on standard error that holds this text."""
        with self._more:
            found = self._more.wait_for(lambda: next((line for line in self.lines if text in line), None), BOUND)
        assert found, f"no line with {text!r} among {self.lines}"
        return found

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def workers(self) -> set[int]:
        """The process ids of the workers: children of the supervisor that lead a process group of their own."""
        found = subprocess.run(
            ["ps", "-o", "pid=,pgid=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=False
        )
        pairs = [line.split() for line in found.stdout.splitlines()]
        return {int(pid) for pid, group in pairs if pid == group}

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to the supervisor; the exit code."""
        self.process.send_signal(number)
        return self.finished()

    def finished(self) -> int:
        code = self.process.wait(BOUND)
        self._reader.join(BOUND)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""
        return code


def command(folder: Path, *arguments: str) -> list[str]:
    (folder / "servers").mkdir(exist_ok=True)
    own = ["--port", "0", "--data", str(folder / "data"), "--servers", str(folder / "servers")]
    return [sys.executable, "-m", "patchbay", "serve", *own, *arguments]


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Hub]:
    """A hub of one's own on a free port, ended afterwards."""
    with subprocess.Popen(
        command(folder, *arguments), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            hub = Hub(process)
            yield hub
        finally:
            if process.poll() is None:
                process.kill()


def refused(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A hub that is expected not to start."""
    return subprocess.run(
        command(folder, *arguments), cwd=ROOT, capture_output=True, text=True, timeout=BOUND, check=False
    )


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition of other processes holds: they tell nobody, so it is asked again and again."""
    end, pause = time.monotonic() + BOUND, threading.Event()
    while not condition():
        assert time.monotonic() < end, f"still not so after {BOUND:g} s: {what}"
        pause.wait(0.02)


def test_it_says_where_it_is_once_it_is_ready(tmp_path: Path) -> None:
    with running(tmp_path) as hub:
        assert hub.line_with("Patchbay is at") == f"Patchbay is at http://127.0.0.1:{hub.port}/mcp\n"
        assert hub.get("/readyz")[0] == 200
        assert hub.get("/healthz")[0] == 200
        assert hub.end() == 0


def test_a_killed_worker_comes_back_while_the_others_answer(tmp_path: Path) -> None:
    """X1, M2: no request that begins after the loss is refused, and there are as many workers as before."""
    with running(tmp_path, "--workers", "2") as hub:
        until(lambda: len(hub.workers()) == 2, "two workers")
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
    with running(tmp_path) as hub, socket.create_connection(("127.0.0.1", hub.port), BOUND):
        begun = time.monotonic()
        assert hub.end() == 0
        assert time.monotonic() - begun < 20


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
        f"patchbay: cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port\n"
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
    lines = [line for line in hub.lines if not line.startswith("Patchbay is at")]
    assert lines
    assert all("event" in json.loads(line) for line in lines)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
