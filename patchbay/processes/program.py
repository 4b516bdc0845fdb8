"""One child process: its output as it comes, its end, and nothing of it left behind.

The child leads its own session. On a deadline or a cancellation (this generator is closed) the
whole group gets SIGTERM and, after a grace, SIGKILL; when it ends by itself, whatever it left
running in its group is killed; so is what left the group but still has its mark in its environment (Linux).
The environment is given, never inherited.
Sources: DESIGN section 6; REQUIREMENTS V-F11 to V-F13, T12.5, X-15, X-16; THREATS X2, X3.
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Literal, Protocol

from patchbay.errors import ToolFailed

CHUNK = 65536
POLL_SECONDS = 0.1
"""Seconds between two looks at a silent child, by this file and by its reader."""

LINGER_SECONDS = 0.5
"""Seconds in which what a child left in the background may finish writing."""

TERMINATION_GRACE_SECONDS = 1.0
"""Seconds between SIGTERM and SIGKILL, unless somebody says otherwise."""

CAP = 64 * 1024 * 1024
"""Most bytes of output, stdout and stderr together."""

PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where programs are looked for when the hub itself has no PATH."""

MARK = "PATCHBAY_CALL"
"""The variable by which everything that a call began is known, wherever it went."""

MAX_STRAY_ROUNDS = 20
"""How often what left the group is looked for: it may go on to begin others while it is killed."""

UNCLEAR = 3
"""How often a process that shows no environment at all is looked at again."""

Channel = Literal["stdout", "stderr"]
Piece = tuple[Channel, bytes] | None
"""A piece of output; None says that nothing came since the last look."""


class Confine(Protocol):
    """Gives what `begin` gives, in a thread that is confined."""

    def __call__(self, begin: Callable[[], subprocess.Popen[bytes]], /) -> subprocess.Popen[bytes]: ...


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, its whole environment, its working folder and what it reads.

    `around` is a command line that ends by running the program: limits, a sandbox. `confine` begins the program in a
    thread that is restricted, and thereby restricts the program.
    """

    argv: Sequence[str]
    environment: dict[str, str]
    folder: Path
    input: bytes | None = None
    around: Sequence[str] = ()
    confine: Confine | None = None


def run(command: Command, cap: int = CAP, grace: float = TERMINATION_GRACE_SECONDS) -> Generator[Piece, None, int]:
    """Run a command: pieces of output as they come, and in the end its return code (negative: killed by a signal).

    Raises ToolFailed when it cannot be started or says more than `cap` bytes. To be closed by its
    reader on a deadline or cancellation: then it has `grace` seconds to end.
    """
    mark = secrets.token_hex(16)
    child = _start(command, mark)
    try:
        said = 0
        for piece in _pieces(child):
            said += len(piece[1]) if piece else 0
            if said > cap:
                raise ToolFailed(f"{command.argv[0]} was stopped: it wrote more than {cap} bytes")
            yield piece
        for nap in _naps():
            if _ended(child):
                break
            time.sleep(nap)
            yield None
        _signal(child, signal.SIGKILL)
        return child.wait()
    finally:
        _end(child, grace)
        _kill_strays(child.pid, f"{MARK}={mark}".encode())


def _start(command: Command, mark: str) -> subprocess.Popen[bytes]:
    program = command.argv[0]
    environment = {"PATH": PATH} | command.environment | {MARK: mark}
    try:
        if command.around:
            _look_for(program, environment["PATH"])
        with TemporaryFile() as source:  # a file, so that neither side has to wait for the other
            source.write(command.input or b"")
            source.seek(0)

            def begin() -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    [*command.around, *command.argv],
                    stdin=source if command.input is not None else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=command.folder,
                    env=environment,
                    start_new_session=True,
                    bufsize=0,
                )

            return begin() if command.confine is None else command.confine(begin)
    except FileNotFoundError as problem:
        raise ToolFailed(
            f"the program {program!r} is not installed here (exit code 127)", {"exitCode": 127}
        ) from problem
    except PermissionError as problem:
        raise ToolFailed(f"the program {program!r} may not be run (exit code 126)", {"exitCode": 126}) from problem
    except OSError as problem:
        raise ToolFailed(f"the program {program!r} cannot be started: {problem.strerror}") from problem
    except ValueError as problem:
        raise ToolFailed(f"an argument of {program!r} is nothing a program can be given: {problem}") from problem


def _look_for(program: str, path: str) -> None:
    """Raise what the system would say of a program that cannot be run, if it were run without anything around it."""
    if shutil.which(program, path=path) is None:
        found = os.path.lexists(program) if os.sep in program else shutil.which(program, os.F_OK, path) is not None
        raise PermissionError(program) if found else FileNotFoundError(program)


def _pieces(child: subprocess.Popen[bytes]) -> Generator[Piece, None, None]:
    """What the child says on both channels, in the order in which it comes, until both are closed.

    Something it left in the background may hold them open for ever: it is given a moment after the
    child's own end (a `>(tee ...)` needs one), then it is killed.
    """
    until: float | None = None
    with selectors.DefaultSelector() as selector:
        for pipe, channel in ((child.stdout, "stdout"), (child.stderr, "stderr")):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, channel)
        while selector.get_map():
            if until is None and _ended(child):
                until = time.monotonic() + LINGER_SECONDS
            over = until is not None and time.monotonic() >= until
            if over:
                _signal(child, signal.SIGKILL)
            ready = selector.select(POLL_SECONDS)
            for key, _ in ready:
                yield from _read(key, selector)
            if over and not ready:
                return
            if not ready:
                yield None


def _read(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> Generator[Piece, None, None]:
    pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
    data = pipe.read(CHUNK)
    if data:
        yield key.data, data
    elif data == b"":
        selector.unregister(pipe)


def _naps() -> Iterator[float]:
    """Seconds between two looks at whether a child has ended: short at first, LOOK in the long run."""
    nap = 0.0005
    while True:
        yield nap
        nap = min(2 * nap, POLL_SECONDS)


def _ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether a child has ended. It stays a zombie where that can be had, so that its group's number stays its own."""
    if child.returncode is not None or not hasattr(os, "waitid"):
        return child.poll() is not None
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(child: subprocess.Popen[bytes], grace: float) -> None:
    """Leave nothing behind: no process of the group, no zombie, no open pipe."""
    try:
        if child.returncode is None:
            _signal(child, signal.SIGTERM)
            until = time.monotonic() + grace
            for nap in _naps():
                if _ended(child) or time.monotonic() >= until:
                    break
                time.sleep(nap)
            _signal(child, signal.SIGKILL)
            child.wait()
    finally:
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):
        return  # the group is empty, which is what a signal is sent for; macOS says EPERM for one of zombies


def _kill_strays(first: int, mark: bytes) -> None:
    """Kill what has the mark. Only what began after the process `first` is looked at.

    A process that is just about to become another program shows nothing for a moment, as one that is over does.
    """
    unclear = UNCLEAR
    for _ in range(MAX_STRAY_ROUNDS):
        seen = {pid: _environment(pid) for pid in _processes() if pid > first}
        strays = [pid for pid, variables in seen.items() if variables and mark in variables]
        for pid in strays:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not strays:
            if unclear == 0 or [] not in seen.values():
                return
            unclear -= 1
            time.sleep(0.001)


def _processes() -> list[int]:
    """All processes; none where there is no /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 (many names, no paths)
    except FileNotFoundError:
        return []


def _environment(pid: int) -> list[bytes] | None:
    """The variables that a process was begun with; None for one that is gone, or another user's."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")[:-1]
    except OSError:
        return None
