"""What the processes of tools may use of the machine, and how the kernel is told: hosts say so themselves, a command
is begun by a shell that says so and becomes the command.

Resource limits hold for each process of a tool by itself. Memory is what it may fill beyond what an
empty host has (RLIMIT_DATA, Linux only; shared memory is not counted). The number of processes is
bounded for ordinary users only: the kernel does not bind root. All of them can be raised by root.
Where the kernel is not Linux, hosts end with their pipe rather than by signal.
Sources: DESIGN section 6; THREATS 1.6; setrlimit(2), prctl(2).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024
MEMORY = 512
"""MiB that a definition may fill when nobody says otherwise."""

LARGEST_FILE = 1024 * MIB
DESCRIPTORS = 1024
PROCESSES = 1024
"""Beyond those that the hub's user has when hosts begin."""

UNLIMITED_BYTES = 2**62
"""More bytes than there can be; a memory that is said to be more means this."""

MAX_CPU_SECONDS = 2**31
"""Seconds of CPU; the kernel counts them in nanoseconds, and more would be few."""

CPU_SLACK = 2.0
"""Seconds of CPU beyond the time that is left for a call, on every core."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_NAME = 1, 36, 38, 15


@dataclass(frozen=True, slots=True)
class Limits:
    """What the processes of a definition may use: `memory` in MiB; whether they are to run in the sandbox.

    `writes` are folders that they may change beside their own.
    """

    memory: int = MEMORY
    sandbox: bool = False
    writes: tuple[str, ...] = ()


def _library() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


_LIBC = _library()


def _prctl(option: int, value: int) -> None:
    if _LIBC is not None and _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def name_process(name: str) -> None:
    """Have this process listed under a name of at most 15 bytes."""
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent process ends; end at once if that has happened. 0: it is outside this namespace."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:
        os._exit(0)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def gain_nothing() -> None:
    """Never get more rights than now, such as by a set-user-id program."""
    _prctl(PR_SET_NO_NEW_PRIVS, 1)


def bound_process(tasks: int) -> None:
    """The limits that are the same for every host; `tasks` is how many tasks its user had before."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, LARGEST_FILE)
    _limit(resource.RLIMIT_NOFILE, DESCRIPTORS)
    if os.getuid() != 0:
        _limit(resource.RLIMIT_NPROC, tasks + PROCESSES)


def bound_memory(mib: int) -> None:
    """Let this process fill so much more memory than it has filled now."""
    if sys.platform == "linux":
        _limit(resource.RLIMIT_DATA, _filled() + mib * MIB)


def _filled() -> int:
    """Bytes of private writable memory of this process, as RLIMIT_DATA counts them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))


def _limit(which: int, most: int) -> None:
    most = _allowed(which, most)
    resource.setrlimit(which, (most, most))


def _allowed(which: int, most: float) -> int:
    """A limit that can be set: no more than an administrator allows, or the kernel can count."""
    hard = resource.getrlimit(which)[1]
    return int(min(most, UNLIMITED_BYTES if hard == resource.RLIM_INFINITY else hard))


def tasks_of_user() -> int:
    """How many processes and threads this user has now; 0 where that cannot be counted."""
    user = os.getuid()
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid == user:
                found += sum(1 for _ in (folder / "task").iterdir())
        except OSError:  # it ended meanwhile, or is not ours to look at
            continue
    return found


def bounded(limits: Limits, seconds: float, tasks: int) -> list[str]:
    """The beginning of a command line that has the rest of it run within limits, of each process by itself.

    `seconds` is how long the call may still take, `tasks` how many tasks its user had before. What the kernel, or an
    administrator, allows less of stays as it is. Memory is all that a process may fill.
    """
    cpu = int(min((seconds + CPU_SLACK) * (os.cpu_count() or 1), MAX_CPU_SECONDS)) + 1
    memory = min(limits.memory * 1024, UNLIMITED_BYTES // 1024)
    most = "unlimited" if os.getuid() == 0 else str(tasks + PROCESSES)
    return ["/bin/sh", "-c", _BOUNDS, "sh", str(cpu), str(memory), most]


_BOUNDS = (
    "exec 3>&2 2>/dev/null; unset PWD OLDPWD SHLVL; "
    f"ulimit -c 0; ulimit -f {LARGEST_FILE // 512}; ulimit -n {DESCRIPTORS}; "
    'ulimit -t "$1"; ulimit -d "$2"; test "$3" = unlimited || ulimit -u "$3" || ulimit -p "$3"; '
    'shift 3; exec "$@" 2>&3 3>&-'
)
"""The same words for every command; what belongs to one are arguments, never a part of them."""


class CpuTime:
    """Keeps the CPU limit a bit above what a call may need: SIGXCPU ends what nobody else stops."""

    def __init__(self) -> None:
        self._cores = os.cpu_count() or 1
        self._until = 0.0

    def allow(self, seconds: float) -> None:
        """Before a call with so many seconds left."""
        needed = time.process_time() + (seconds + CPU_SLACK) * self._cores
        if needed > self._until or self._until > 2 * needed + 60:
            self._until = needed + 60
            which = resource.RLIMIT_CPU
            resource.setrlimit(
                which, (_allowed(which, min(self._until + 1, MAX_CPU_SECONDS)), resource.getrlimit(which)[1])
            )


def peak() -> int:
    """The most memory this process has had in use, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
