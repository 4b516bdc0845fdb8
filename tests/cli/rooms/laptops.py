"""A laptop in a closed network that shares a server in a room: `patchbay room announce` as a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from tests.checkout import ROOT
from tests.cli.rooms.closed_network import join
from tests.descriptors import list_descriptors
from tests.interaction.programs import plain_environment

BOUND = 60.0
LISTEN = "0A"
"""The state of a socket that listens, as /proc/net/tcp writes it."""


@cache
def namespace_command() -> tuple[str, ...]:
    """The command that makes a network namespace here; empty on a machine that forbids it."""
    for command in (("unshare", "-n"), ("unshare", "-rn")):
        try:
            done = subprocess.run([*command, "true"], capture_output=True, timeout=BOUND)
        except FileNotFoundError:
            return ()
        if done.returncode == 0:
            return command
    return ()


class Laptop:
    """One `patchbay room announce` at a time. `lines` is what it has written; `pid` is its process."""

    def __init__(self, folder: Path, hub: str) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.pid = 0
        self._hub = urlsplit(hub)
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._changed = threading.Condition()
        self._gate = socket.socket(socket.AF_UNIX)
        self._gate.bind(str(folder / "gate"))
        self._gate.listen()
        threading.Thread(target=self._pass_on, daemon=True).start()

    @property
    def server(self) -> str:
        """The address of the server that runs on this laptop."""
        return f"mcp+stdio:{sys.executable} {ROOT / 'tests/cli/rooms/laptop_server.py'} {self.folder}"

    def announce(self, room: str, *options: str, address: str = "", answers: str | None = None) -> None:
        """Start `patchbay room announce`; `answers` are typed at its questions."""
        inner = [sys.executable, "-m", "patchbay", "room", "announce", f"{self._hub.geturl()}/rooms/{room}"]
        inner += [address or self.server, "--writes", str(self.folder), *options]
        outer: Sequence[str] = ()
        if namespace_command():
            program = str(ROOT / "tests/cli/rooms/closed_network.py")
            outer = [
                *namespace_command(),
                sys.executable,
                program,
                str(self._hub.port),
                str(self.folder / "gate"),
                "--",
            ]
        process = self._process = subprocess.Popen(
            [*outer, *inner],
            cwd=ROOT,
            env=plain_environment(self.folder) | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.lines.clear()
        self._reader = threading.Thread(target=self._read, args=(process,))
        self._reader.start()
        assert process.stdin is not None
        if answers is not None:
            process.stdin.write(answers)
            process.stdin.flush()
        self.pid = int(self.line_with("pid ").split()[1]) if outer else process.pid
        self.line_with("is announced in")

    def line_with(self, text: str) -> str:
        """The first line that holds a text, once it is there."""
        with self._changed:
            found = self._changed.wait_for(lambda: next((one for one in self.lines if text in one), None), BOUND)
        assert found, f"no line with {text!r} among {self.lines}"
        return found

    def kill(self) -> None:
        """End it without a chance to say so, as a lid that is shut does."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._ended()

    def stop(self) -> int:
        """End it with SIGTERM; returns its exit code."""
        if self._process is None:
            return 0
        os.kill(self.pid, signal.SIGTERM)
        return self._ended()

    def end(self) -> int:
        """Wait until it ends by itself; returns its exit code."""
        return self._ended()

    def listening_ports(self) -> set[int]:
        """The TCP ports that the announcer and the server that it started listen on."""
        inodes = {inode for pid in (self.pid, *_children(self.pid)) for inode in _sockets(pid)}
        found = set()
        for table in ("tcp", "tcp6"):
            for row in Path(f"/proc/{self.pid}/net/{table}").read_text().splitlines()[1:]:
                words = row.split()
                if words[3] == LISTEN and words[9] in inodes:
                    found.add(int(words[1].rpartition(":")[2], 16))
        return found

    def _ended(self) -> int:
        assert self._process is not None
        assert self._reader is not None
        code = self._process.wait(BOUND)
        self._reader.join(BOUND)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process = None
        return code

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()

    def _pass_on(self) -> None:
        while True:
            try:
                inside, _ = self._gate.accept()
            except OSError:
                return
            try:
                outside = socket.create_connection((self._hub.hostname or "", self._hub.port or 0))
            except OSError:
                inside.close()
                continue
            join(inside, outside)

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        self._gate.close()


def _children(pid: int) -> list[int]:
    found = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*found, *(inner for one in found for inner in _children(one))]


def _sockets(pid: int) -> list[str]:
    return [each[8:-1] for each in list_descriptors(pid) if each.startswith("socket:[")]


@contextmanager
def laptop(folder: Path, hub: str) -> Iterator[Laptop]:
    """A laptop for one module of tests."""
    made = Laptop(folder, hub)
    try:
        yield made
    finally:
        made.close()
