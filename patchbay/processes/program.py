"""Run one child process: stream its output, wait for its end, and leave no process behind.

The child leads its own session. On a deadline or a cancellation (the generator is closed) the whole group gets SIGTERM
and, after a grace period, SIGKILL. When the child ends by itself, processes that it left in its group are killed, and
so are those that left the group but still have its mark in their environment (Linux). The child gets the given
environment only; it inherits no variable.
"""

from __future__ import annotations

import os
import secrets
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Literal, Protocol

from patchbay.errors import ServerFailed
from patchbay.processes.process_trees import kill_marked, signal_group

CHUNK_BYTES = 65536
POLL_SECONDS = 0.1
"""Seconds between two checks of a silent child."""

LINGER_SECONDS = 0.5
"""Seconds in which background processes of a child may finish writing."""

TERMINATION_GRACE_SECONDS = 1.0
"""Default seconds between SIGTERM and SIGKILL."""

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
"""Maximum bytes of output, stdout and stderr together."""

PATH = "/usr/local/bin:/usr/bin:/bin"
"""Search path for programs when the hub itself has no PATH."""

CALL_VARIABLE = "PATCHBAY_CALL"
"""Environment variable that identifies every process of one call, in whatever group it is."""

Channel = Literal["stdout", "stderr"]
Piece = tuple[Channel, bytes] | None
"""One piece of output; None means no output since the last check."""


class Confine(Protocol):
    """Gives what `begin` gives, in a thread that is confined."""

    def __call__(self, begin: Callable[[], subprocess.Popen[bytes]], /) -> subprocess.Popen[bytes]: ...


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, its whole environment, its working folder and its input.

    `around` is a command line that ends by running the program: limits, a sandbox. `confine` starts the program in a
    thread that is restricted, and thereby restricts the program. The program inherits the descriptors `pass_fds`.
    """

    argv: Sequence[str]
    environment: dict[str, str]
    folder: Path
    input: bytes | None = None
    around: Sequence[str] = ()
    confine: Confine | None = None
    pass_fds: Sequence[int] = ()


def run(
    command: Command, cap: int = MAX_OUTPUT_BYTES, grace: float = TERMINATION_GRACE_SECONDS
) -> Generator[Piece, None, int]:
    """Run a command: yield its output in pieces, return its return code (negative: killed by that signal).

    Raises ToolFailed when it cannot be started or writes more than `cap` bytes. Close the generator on a deadline or a
    cancellation; then the command has `grace` seconds to end.
    """
    mark = secrets.token_hex(16)
    child = _start(command, mark)
    try:
        written = 0
        for piece in _pieces(child):
            written += len(piece[1]) if piece else 0
            if written > cap:
                words = f"was stopped: it wrote more than {cap} bytes"
                raise ServerFailed(f"{command.argv[0]} {words}", hidden=f"it {words}")
            yield piece
        for nap in _poll_intervals():
            if _has_ended(child):
                break
            time.sleep(nap)
            yield None
        signal_group(child.pid, signal.SIGKILL)
        return child.wait()
    finally:
        _end(child, grace)
        kill_marked(child.pid, f"{CALL_VARIABLE}={mark}".encode())


def _start(command: Command, mark: str) -> subprocess.Popen[bytes]:
    program = command.argv[0]
    environment = {"PATH": PATH} | command.environment | {CALL_VARIABLE: mark}
    try:
        if command.around:
            _check_program(program, environment["PATH"])
        with TemporaryFile() as source:  # a file, so that neither side waits for the other
            source.write(command.input or b"")
            source.seek(0)

            def start() -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    [*command.around, *command.argv],
                    stdin=source if command.input is not None else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=command.folder,
                    env=environment,
                    start_new_session=True,
                    bufsize=0,
                    pass_fds=command.pass_fds,
                )

            return start() if command.confine is None else command.confine(start)
    except FileNotFoundError as problem:
        raise ServerFailed(
            f"the program {program!r} is not installed here (exit code 127)", {"exitCode": 127}
        ) from problem
    except PermissionError as problem:
        raise ServerFailed(f"the program {program!r} may not be run (exit code 126)", {"exitCode": 126}) from problem
    except OSError as problem:
        raise ServerFailed(f"the program {program!r} cannot be started: {problem.strerror}") from problem
    except ValueError as problem:
        words = f"a program cannot take an argument given for {program!r}: {problem}"
        raise ServerFailed(words, hidden=f"its program cannot take an argument: {problem}") from problem


def _check_program(program: str, path: str) -> None:
    """Raise the error that starting this program directly would raise, because a wrapper hides it."""
    if shutil.which(program, path=path) is None:
        found = os.path.lexists(program) if os.sep in program else shutil.which(program, os.F_OK, path) is not None
        raise PermissionError(program) if found else FileNotFoundError(program)


def _pieces(child: subprocess.Popen[bytes]) -> Generator[Piece, None, None]:
    """Yield the output on both channels in the order of arrival, until both are closed.

    A background process of the child may keep them open. It has LINGER_SECONDS after the child's own end (a `>(tee
    ...)` needs that), then it is killed.
    """
    until: float | None = None
    with selectors.DefaultSelector() as selector:
        for pipe, channel in ((child.stdout, "stdout"), (child.stderr, "stderr")):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, channel)
        while selector.get_map():
            if until is None and _has_ended(child):
                until = time.monotonic() + LINGER_SECONDS
            over = until is not None and time.monotonic() >= until
            if over:
                signal_group(child.pid, signal.SIGKILL)
            ready = selector.select(POLL_SECONDS)
            for key, _ in ready:
                yield from _read(key, selector)
            if over and not ready:
                return
            if not ready:
                yield None


def _read(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> Generator[Piece, None, None]:
    pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
    data = pipe.read(CHUNK_BYTES)
    if data:
        yield key.data, data
    elif data == b"":
        selector.unregister(pipe)


def _poll_intervals() -> Iterator[float]:
    """Yield the seconds to sleep between two checks: short at first, POLL_SECONDS in the end."""
    nap = 0.0005
    while True:
        yield nap
        nap = min(2 * nap, POLL_SECONDS)


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether a child has ended. Where possible it stays a zombie, so that its process group id is not reused."""
    if child.returncode is not None or not hasattr(os, "waitid"):
        return child.poll() is not None
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(child: subprocess.Popen[bytes], grace: float) -> None:
    """End the child completely: no process of the group, no zombie, no open pipe."""
    try:
        if child.returncode is None:
            signal_group(child.pid, signal.SIGTERM)
            until = time.monotonic() + grace
            for nap in _poll_intervals():
                if _has_ended(child) or time.monotonic() >= until:
                    break
                time.sleep(nap)
            signal_group(child.pid, signal.SIGKILL)
            child.wait()
    finally:
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
