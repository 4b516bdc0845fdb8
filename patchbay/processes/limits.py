"""Resource limits of tool processes. Worker processes set their own; a command runs through a shell that sets them.

Resource limits apply to each process of a tool separately. Memory is what it may use beyond an empty worker process
(RLIMIT_DATA, Linux only; shared memory is not counted). The number of processes is limited for ordinary users only: the
kernel exempts root, which can also raise every limit. Where the kernel is not Linux, worker processes end when their
pipe closes rather than by a signal.

Sources: setrlimit(2), prctl(2).
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from patchbay.processes.confinement.kernel import (
    LINUX,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    control_process,
    set_process_name,
)

MIB = 1024 * 1024
DEFAULT_MEMORY_MIB = 512
"""MiB that a definition may use unless its configuration says otherwise."""

MAX_FILE_BYTES = 1024 * MIB
MAX_DESCRIPTORS = 1024
MAX_PROCESSES = 1024
"""Processes and threads beyond those that the hub's user has already."""

TASKS_COUNT_SECONDS = 5.0
"""Seconds for which a count of the user's processes and threads is used; a count takes some milliseconds."""

UNLIMITED_BYTES = 2**62
"""Treated as unlimited: more bytes than any machine has."""

MAX_CPU_SECONDS = 2**31
"""Largest limit of CPU seconds; the kernel counts in nanoseconds, and larger values overflow."""

CPU_SLACK_SECONDS = 2.0
"""Seconds of CPU beyond the time that is left for a call, on every core."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a definition's processes: `memory` in MiB, and whether they run in the sandbox.

    `writes` are folders that they may change beside their own.
    """

    memory: int = DEFAULT_MEMORY_MIB
    sandbox: bool = False
    writes: tuple[str, ...] = ()


def name_process(name: str) -> None:
    """Give this process a name in process lists, of at most 15 bytes (Linux)."""
    if LINUX:
        set_process_name(name.encode()[:15])


def die_with_parent(parent: int) -> None:
    """Kill this process when its parent ends (Linux); exit if it has ended. `parent` 0: outside this namespace."""
    if LINUX:
        control_process(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:
        os._exit(0)


def forbid_new_privileges() -> None:
    """Never gain privileges, such as by a set-user-id program (Linux)."""
    if LINUX:
        control_process(PR_SET_NO_NEW_PRIVS, 1)


def limit_process() -> None:
    """Set the limits that are equal for every worker process."""
    _set_limit(resource.RLIMIT_CORE, 0)
    _set_limit(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    _set_limit(resource.RLIMIT_NOFILE, MAX_DESCRIPTORS)
    tasks = max_user_tasks()
    if tasks is not None:
        _set_limit(resource.RLIMIT_NPROC, tasks)


def limit_memory(mib: int) -> None:
    """Allow this process `mib` MiB more memory than it uses now."""
    if LINUX:
        _set_limit(resource.RLIMIT_DATA, _used_memory() + mib * MIB)


def _used_memory() -> int:
    """Return the bytes of private writable memory of this process, as RLIMIT_DATA counts them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))


def _set_limit(which: int, most: int) -> None:
    most = _allowed(which, most)
    resource.setrlimit(which, (most, most))


def _allowed(which: int, most: float) -> int:
    """Return a limit that can be set: within the hard limit, and within what the kernel can count."""
    hard = resource.getrlimit(which)[1]
    return int(min(most, UNLIMITED_BYTES if hard == resource.RLIM_INFINITY else hard))


def max_user_tasks() -> int | None:
    """Return how many processes and threads this user may have; None for root, which the kernel exempts.

    The kernel counts those of other programs too, so the limit follows their number.
    """
    if os.getuid() == 0:
        return None
    return _count_user_tasks(int(time.monotonic() / TASKS_COUNT_SECONDS)) + MAX_PROCESSES


@lru_cache(maxsize=1)
def _count_user_tasks(period: int) -> int:
    """Return how many processes and threads this user has, counted once a period; 0 where they cannot be counted."""
    user = os.getuid()
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid == user:
                found += sum(1 for _ in (folder / "task").iterdir())
        except OSError:  # it ended in the meantime, or the hub may not read it
            continue
    return found


def limit_command(limits: Limits, seconds: float) -> list[str]:
    """Return the beginning of a command line that runs the rest of it within limits, for each process separately.

    `seconds` is the time left for the call. A limit that is already lower stays as it is. Memory is the total of each
    process.
    """
    cpu = int(min((seconds + CPU_SLACK_SECONDS) * (os.cpu_count() or 1), MAX_CPU_SECONDS)) + 1
    memory = min(limits.memory * 1024, UNLIMITED_BYTES // 1024)
    tasks = max_user_tasks()
    return ["/bin/sh", "-c", _BOUNDS, "sh", str(cpu), str(memory), "unlimited" if tasks is None else str(tasks)]


_BOUNDS = (
    "exec 3>&2 2>/dev/null; unset PWD OLDPWD SHLVL; "
    f"ulimit -c 0; ulimit -f {MAX_FILE_BYTES // 512}; ulimit -n {MAX_DESCRIPTORS}; "
    'ulimit -t "$1"; ulimit -d "$2"; test "$3" = unlimited || ulimit -u "$3" || ulimit -p "$3"; '
    'shift 3; exec "$@" 2>&3 3>&-'
)
"""The same script for every command; the values of one command are arguments of it."""


class CpuTime:
    """Keeps the CPU limit slightly above the need of a call, so that SIGXCPU ends a runaway process."""

    def __init__(self) -> None:
        self._cores = os.cpu_count() or 1
        self._until = 0.0
        self._used = 0.0
        self._looked = 0.0

    def allow(self, seconds: float) -> None:
        """Allow a call that has this many seconds left.

        A process uses at most all cores: no system call is needed while what it may have used since the last look fits.
        """
        now, needed = time.monotonic(), (seconds + CPU_SLACK_SECONDS) * self._cores
        most = self._used + (now - self._looked) * self._cores
        if most + needed <= self._until <= self._most_for(needed):
            return
        self._used, self._looked = time.process_time(), now
        if self._used + needed > self._until or self._until > self._most_for(needed):
            self._until = self._used + needed + 60
            which = resource.RLIMIT_CPU
            resource.setrlimit(
                which, (_allowed(which, min(self._until + 1, MAX_CPU_SECONDS)), resource.getrlimit(which)[1])
            )

    def _most_for(self, needed: float) -> float:
        """Return the limit above which a call that needs so many seconds gets a lower one."""
        return 2 * (self._used + needed) + 60


def peak_memory_bytes() -> int:
    """Return the peak memory of this process, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
