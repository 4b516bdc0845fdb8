"""`patchbay stdio` as a client starts it: what stands on its output, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD
from typing import Any

import orjson
import pytest

from patchbay import exit_codes
from tests.checkout import ROOT
from tests.hubs import modern_request
from tests.interaction.programs import plain_environment
from tests.kinds.python.workers.conversing import family
from tests.serving.running import alive, marks
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

NOISY = '''"""Prints where it can."""

import os
import subprocess
import sys
import time

print("while it is loaded")


def noisy() -> str:
    """Print."""
    print("from a tool")
    os.write(1, b"from below\\n")
    sys.stdout.flush()
    subprocess.run(["echo", "from a child"], check=True)
    return "quiet"


def reads() -> str:
    """Read what is not its own."""
    return sys.stdin.read() + "|" + os.read(0, 10).decode()


def large() -> str:
    """Give more than a pipe holds."""
    return "x" * 200_000


def hangs(context) -> str:
    """Never end by itself."""
    context.log("begun")
    while True:
        time.sleep(0.05)
'''

SLEEPER = "#!/bin/bash\n# Sleep.\nprintf '%s ' $$ > \"$1\"\nexec sleep 600\n"

OPEN = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}


class Child:
    """A running `patchbay stdio`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def send(self, method: str, params: Any = None, id: Any = 1) -> None:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
        assert self.process.stdin is not None
        self.process.stdin.write(orjson.dumps(message) + b"\n")
        self.process.stdin.flush()

    def note(self, method: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(orjson.dumps({"jsonrpc": "2.0", "method": method}) + b"\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        return orjson.loads(self.process.stdout.readline())

    def ask(self, method: str, params: Any = None, id: Any = 1) -> Any:
        """Send a request and return its answer, without the notifications before it."""
        self.send(method, params, id)
        answer = self.until(lambda message: message.get("id") == id)
        if method == "initialize":
            self.note("notifications/initialized")
        return answer

    def until(self, wanted: Callable[[Any], bool]) -> Any:
        """Read on to a message that is wanted."""
        while not wanted(message := self.read()):
            assert "id" not in message
        return message

    def processes(self) -> set[int]:
        """The process and everything below it, by the numbers that this process sees: a tool may see another."""
        return {self.process.pid} | family(self.process.pid)

    def waiting(self) -> int:
        """The number of unread bytes of the output."""
        assert self.process.stdout is not None
        size = array("i", [0])
        ioctl(self.process.stdout.fileno(), FIONREAD, size)
        return size[0]

    def ends(self) -> tuple[int, bytes, str]:
        """Exit code, the rest of the output, and everything on standard error, when it ends by itself."""
        out, err = self.process.communicate(timeout=BOUND)
        return self.process.returncode, out, err.decode()


@contextmanager
def started(folder: Path, server: str, *options: str) -> Iterator[Child]:
    servers = folder / "servers"
    servers.mkdir(exist_ok=True)
    (servers / "noisy.py").write_text(NOISY)
    (servers / "sleeper.sh").write_text(SLEEPER)
    command = [sys.executable, "-m", "patchbay", "stdio", server, "--servers", str(servers), *options]
    if "--data" not in options:
        command += ["--store", "memory"]
    pipe = subprocess.PIPE
    environment = plain_environment(folder)
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield Child(process)
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_nothing_but_messages_ever_stands_on_the_output(tmp_path: Path, isolation: str) -> None:
    """SUB-37."""
    with started(tmp_path, "noisy", "--log-level", "debug", "--isolation", isolation) as child:
        assert child.ask("initialize", OPEN)["result"]["serverInfo"]["name"] == "noisy"
        assert child.ask("tools/call", {"name": "noisy"}, 2)["result"]["content"][0]["text"] == "quiet"
        code, rest, log = child.ends()
    assert (code, rest) == (exit_codes.OK, b"")
    assert isolation == "process" or {"from a tool", "from below", "from a child"} <= set(log.splitlines())


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_no_tool_reads_the_messages(tmp_path: Path, isolation: str) -> None:
    with started(tmp_path, "noisy", "--isolation", isolation) as child:
        child.ask("initialize", OPEN)
        assert child.ask("tools/call", {"name": "reads"}, 2)["result"]["content"][0]["text"] == "|"


def test_the_newest_revision_is_served_from_the_first_line(tmp_path: Path) -> None:
    with started(tmp_path, "echo") as child:
        message, _ = modern_request("tools/call", {"name": "echo", "arguments": {"message": "a\u2028b"}})
        answer = child.ask(message["method"], message["params"])
        assert (answer["result"]["content"][0]["text"], answer["result"]["resultType"]) == ("a\u2028b\n", "complete")


def test_calls_finish_after_the_input_has_ended(tmp_path: Path) -> None:
    with started(tmp_path, "echo") as child:
        child.ask("initialize", OPEN)
        child.send("tools/call", {"name": "echo", "arguments": {"message": "late"}}, 2)
        code, rest, _ = child.ends()
    assert (code, orjson.loads(rest)["result"]["content"][0]["text"]) == (exit_codes.OK, "late\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_in_the_middle_of_a_call(tmp_path: Path, number: signal.Signals) -> None:
    written = marks(tmp_path) / "pid"
    options = ("--data", str(tmp_path / "data"), "--writes", str(written.parent))
    with started(tmp_path, "sleeper", *options) as child:
        child.ask("initialize", OPEN)
        child.send("tools/call", {"name": "sleeper", "arguments": {"args": str(written)}}, 2)
        until(lambda: written.exists() and written.read_text().endswith(" "), "the tool runs")
        processes = child.processes()
        child.process.send_signal(number)
        code, rest, log = child.ends()
    assert (code, rest) == (exit_codes.OK, b"")
    assert "Traceback" not in log
    assert len(processes) > 1
    until(lambda: not any(map(alive, processes)), "nothing is left of the tool")


def test_a_listening_client_is_notified_of_the_end(tmp_path: Path) -> None:
    """SPEC-DIGEST 1.10."""
    with started(tmp_path, "echo") as child:
        message, _ = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        child.send(message["method"], message["params"])
        assert child.read()["method"] == "notifications/subscriptions/acknowledged"
        child.process.terminate()
        code, rest, _ = child.ends()
    told = [orjson.loads(line) for line in rest.splitlines()]
    assert (code, told[0]["method"], told[1]["id"]) == (exit_codes.OK, "notifications/cancelled", 1)


def test_a_reader_that_is_gone_ends_it_quietly(tmp_path: Path) -> None:
    with started(tmp_path, "noisy") as child:
        child.ask("initialize", OPEN)
        assert child.process.stdout is not None
        child.process.stdout.close()
        child.send("ping", id=2)
        assert child.process.wait(BOUND) == exit_codes.OK
        assert child.process.stderr is not None
        assert "Traceback" not in child.process.stderr.read().decode()


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_a_signal_does_not_wait_for_the_calls_that_were_left(tmp_path: Path, isolation: str) -> None:
    with started(tmp_path, "noisy", "--isolation", isolation) as child:
        child.ask("initialize", OPEN)
        child.send("tools/call", {"name": "hangs"}, 2)
        child.until(lambda message: message["params"]["data"] == "begun")
        processes = child.processes()
        assert child.process.stdin is not None
        child.process.stdin.close()
        child.process.stdin = None
        child.process.terminate()
        code, rest, _ = child.ends()
    assert (code, rest) == (exit_codes.OK, b"")
    assert isolation == "inline" or len(processes) > 1
    until(lambda: not any(map(alive, processes)), "nothing is left of the tool")


def test_a_reader_that_does_not_read_does_not_block_the_end(tmp_path: Path) -> None:
    with started(tmp_path, "noisy") as child:
        child.ask("initialize", OPEN)
        for id in range(3):
            child.send("tools/call", {"name": "large"}, id)
        # The pipe is full, and the rest waits in a write.
        until(lambda: child.waiting() >= 4096, "the pipe is full")
        child.process.terminate()
        assert child.process.wait(BOUND) == exit_codes.OK


def test_several_start_at_once_on_one_data_folder(tmp_path: Path) -> None:
    options = ("--data", str(tmp_path / "data"))
    with ExitStack() as stack:
        children = [stack.enter_context(started(tmp_path, "noisy", *options)) for _ in range(4)]
        for child in children:
            child.send("initialize", OPEN)
        assert ["result" in child.read() for child in children] == [True] * 4


@pytest.mark.parametrize(
    ("server", "options", "sentence"),
    [
        ("eco", (), "patchbay: there is no server 'eco'; did you mean echo?"),
        ("echo@nothing", (), "patchbay: "),
        ("echo", ("--boot", "nothing"), "patchbay: "),
        ("echo", ("--data", "/dev/null/data"), "patchbay: "),
    ],
)
def test_an_unusable_setting_is_one_sentence(
    tmp_path: Path, server: str, options: tuple[str, ...], sentence: str
) -> None:
    with started(tmp_path, server, *options) as child:
        code, out, log = child.ends()
    assert (code, out) == (exit_codes.USAGE, b"")
    problem, *next_step = log.splitlines()[-2:] if "\nNext: " in log else log.splitlines()[-1:]
    assert problem.startswith(sentence)
    assert all(line.startswith("Next: ") for line in next_step)
    assert "Traceback" not in log
