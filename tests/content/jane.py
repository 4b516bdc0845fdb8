"""What the tests of Jane share: a hub whose library is a folder of the test's own, and a conversation on a pipe."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from tests.checkout import ROOT
from tests.interaction.programs import plain_environment
from tests.waiting import BOUND


def command(folder: Path) -> list[str]:
    """How a client starts Jane."""
    return [sys.executable, "-m", "patchbay", "stdio", "jane", "--data", str(folder / "data"), "--servers", str(folder)]


class Pipe:
    """A client of a few lines on the standard input and output of `patchbay stdio jane`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.notes: list[dict[str, Any]] = []

    def raw(self, line: bytes) -> dict[str, Any]:
        """Write a line; the next answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()
        return self.next()

    def next(self) -> dict[str, Any]:
        """The next answer; notifications before it are kept."""
        assert self._process.stdout is not None
        while True:
            said: dict[str, Any] = orjson.loads(self._process.stdout.readline())
            if "method" not in said:
                return said
            self.notes.append(said)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """A request; its answer."""
        return self.raw(orjson.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}))

    def note(self, method: str) -> None:
        """Send a notification."""
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps({"jsonrpc": "2.0", "method": method}) + b"\n")
        self._process.stdin.flush()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """tools/call; the whole answer."""
        return self.ask("tools/call", name=tool, arguments=arguments)

    def open(self, version: str = "2024-11-05") -> dict[str, Any]:
        """The handshake; the result of initialize."""
        client = {"name": "claude-desktop", "version": "1"}
        answer = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=client)
        self.note("notifications/initialized")
        return dict(answer["result"])

    def end(self) -> tuple[int, bytes]:
        """Disconnect; return the exit code and the remaining output."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        rest = self._process.stdout.read()
        return self._process.wait(BOUND), rest


@contextmanager
def spoken(folder: Path) -> Iterator[Pipe]:
    """Jane on a pipe, with the library `folder / "library"`; its log is `folder / "log"`."""
    environment = {**plain_environment(folder), "JANE_DIR": str(folder / "library")}
    pipe = subprocess.PIPE
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command(folder), cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=log) as process,
    ):
        try:
            yield Pipe(process)
        finally:
            process.kill()
