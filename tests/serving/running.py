"""A hub as a program of its own: started on a free port, talked to over HTTP, ended by signals."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from patchbay.access.hub_key import load_key
from patchbay.access.operator_token import TOKEN_FILE, OperatorToken
from patchbay.store import DATABASE_FILE as FILE
from patchbay.web.operator.login_links import LoginLinks
from tests.checkout import ROOT
from tests.descriptors import list_descriptors
from tests.waiting import BOUND

ONE_WORKER = ("--workers", "1")
"""Options of a hub whose test looks at one process, or counts what each worker limits for itself."""

LISTEN = "0A"
"""The state of a socket that listens, as /proc/net/tcp writes it."""


class Hub:
    """A running hub: its process, its folder, its port, and the lines it has written to standard error."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.lines: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        try:
            line = self.line_with("Patchbay is at ")
        except BaseException:
            self.close()
            raise
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

    def close(self) -> None:
        """Kill the hub if it still runs, and read its standard error to the end, before the pipe is closed."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(BOUND)
        self._reader.join(BOUND)

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def token(self) -> str:
        """The operator's token, as commands of the same user read it."""
        return (self.folder / "data" / TOKEN_FILE).read_text().strip()

    def link(self) -> str:
        """The link that the terminal shows, which logs a browser in once."""
        return self.line_with("/login?once=").rsplit(" ", 1)[1].strip()

    def login_path(self) -> str:
        """The path of another such link, as `patchbay login` makes it."""
        data = self.folder / "data"
        return LoginLinks(load_key(data), OperatorToken(data)).make()

    def as_operator(self) -> dict[str, str]:
        """The header that proves a program to be the operator's."""
        return {"Authorization": f"Bearer {self.token()}"}

    def accepts(self) -> bool:
        """Whether anything listens on the hub's port."""
        try:
            socket.create_connection(("127.0.0.1", self.port), BOUND).close()
        except ConnectionError:
            return False
        return True

    def listening(self) -> int:
        """How many workers take connections: those that wait for events of the socket that listens on the port."""
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        rows = [line.split() for line in lines]
        found = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{self.port:04X}") and row[3] == LISTEN}
        return sum(waits_for(worker, found) for worker in self.workers())

    def workers(self) -> set[int]:
        """The process ids of the workers."""
        return workers_of(self.process.pid)

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


def waits_for(pid: int, sockets: set[str]) -> bool:
    """Whether a process waits for events of one of these sockets by epoll (proc_pid_fdinfo(5))."""
    with suppress(FileNotFoundError):
        descriptors = [each.name for each in Path(f"/proc/{pid}/fd").iterdir() if str(each.readlink()) in sockets]
        for each in Path(f"/proc/{pid}/fdinfo").iterdir():
            awaited = [line.split()[1] for line in each.read_text().splitlines() if line.startswith("tfd:")]
            if set(awaited) & set(descriptors):
                return True
    return False


def workers_of(supervisor: int) -> set[int]:
    """The process ids of the workers: children of the supervisor that lead a process group of their own."""
    found = subprocess.run(
        ["ps", "-o", "pid=,pgid=", "--ppid", str(supervisor)], capture_output=True, text=True, check=False
    )
    pairs = [line.split() for line in found.stdout.splitlines()]
    return {int(pid) for pid, group in pairs if pid == group}


def threads_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


class Worker:
    """What the only worker of a hub holds."""

    def __init__(self, hub: Hub) -> None:
        [self.pid] = hub.workers()

    def _status(self, name: str) -> int:
        return int(Path(f"/proc/{self.pid}/status").read_text().split(f"\n{name}:")[1].split()[0])

    def threads(self) -> int:
        return threads_of(self.pid)

    def descriptors(self) -> Counter[str]:
        """How many of its descriptors lead to what; the store's files are left out.

        The store keeps as many connections for reading as were once needed together, up to a bound.
        """
        found = Counter(re.sub(r"\[\d+\]", "", each) for each in list_descriptors(self.pid))
        return Counter({name: count for name, count in found.items() if f"/{FILE}" not in name})

    def memory(self) -> int:
        """KiB."""
        return self._status("VmRSS")


def marks(folder: Path) -> Path:
    """The folder in which tools of a hub of `folder` may leave marks for the tests."""
    found = folder / "marks"
    found.mkdir(exist_ok=True)
    return found


def command(folder: Path, *arguments: str) -> list[str]:
    (folder / "servers").mkdir(exist_ok=True)
    own = ["--port", "0", "--data", str(folder / "data"), "--servers", str(folder / "servers")]
    own += ["--writes", str(marks(folder))]
    return [sys.executable, "-m", "patchbay", "serve", *own, *arguments]


@contextmanager
def running(
    folder: Path, *arguments: str, around: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> Iterator[Hub]:
    """A hub of one's own on a free port, ended afterwards.

    `around` is a command line that runs the rest of it, such as one for another user; `environ` its environment.
    """
    with (
        subprocess.Popen(
            [*around, *command(folder, *arguments)],
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        closing(Hub(process, folder)) as hub,
    ):
        yield hub


def refused(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A hub that is expected not to start."""
    return subprocess.run(
        command(folder, *arguments), cwd=ROOT, capture_output=True, text=True, timeout=BOUND, check=False
    )


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
