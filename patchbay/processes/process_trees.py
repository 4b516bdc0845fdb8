"""End process trees: find, signal and reap a process with everything that it started. Only the standard library.

Run as a program, this file is the reaper: it stands between a client and a server that the client started, so that no
process of the server outlives the client.

    python -I -S process_trees.py CONTROL FOLDER PROGRAM ARGUMENT...

It runs PROGRAM in its own session on the standard streams it was given, closes its own copies of them, and becomes
the parent of every descendant that loses its own parent (Linux). On the socket with the descriptor CONTROL it writes
`pid N` and, when the program has ended, `exit N`. It obeys `T` (SIGTERM to every descendant) and `K` (SIGKILL). When
the socket closes, because its owner closed it or died, it does both. It ends when it has no descendant left, with the
exit code of the program. It must start in milliseconds, so this file imports nothing of the package.

Where there is no /proc (macOS), a tree is its process group: a process that left the group is not found.

Sources: proc(5), waitid(2), prctl(2) PR_SET_CHILD_SUBREAPER.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress

PROC = "/proc"
"""Where the kernel describes processes."""

PR_SET_CHILD_SUBREAPER = 36

TERMINATION_GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL when the owner has gone."""

LINGER_SECONDS = 0.5
"""Seconds between SIGTERM and SIGKILL for processes that the program left behind when it ended by itself."""

POLL_SECONDS = 0.02

SIGNALLED = 128
"""Added to the number of the signal that ended the program, for the exit code of the reaper, as shells do."""

MAX_STRAY_ROUNDS = 20
"""Maximum number of searches for marked processes: they may start others while they are killed."""

MAX_EMPTY_CHECKS = 3
"""How often a process with an empty environment is checked again."""


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own parent (Linux). Raises OSError."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        if library.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl PR_SET_CHILD_SUBREAPER")


def process_ids() -> list[int]:
    """Return the ids of all processes; an empty list where there is no /proc."""
    try:
        return [int(name) for name in os.listdir(PROC) if name.isdecimal()]  # noqa: PTH208 (many names, no paths)
    except FileNotFoundError:
        return []


def environment_of(pid: int) -> list[bytes] | None:
    """Return the variables that a process was started with; None for one that has ended or is another user's."""
    try:
        return _read(f"{PROC}/{pid}/environ").split(b"\0")[:-1]
    except OSError:
        return None


def children_of(pid: int) -> list[int]:
    """Return the children of a process; an empty list for one that has ended, and where there is no /proc."""
    try:
        threads = os.listdir(f"{PROC}/{pid}/task")  # noqa: PTH208
    except OSError:
        return []
    try:
        words = [word for thread in threads for word in _read(f"{PROC}/{pid}/task/{thread}/children").split()]
    except OSError:
        # The kernel keeps no such lists, or a thread ended and its children are now those of another thread.
        return [child for child in process_ids() if _parent_of(child) == pid]
    return [int(word) for word in words]


def _parent_of(pid: int) -> int:
    """Return the parent of a process; 0 for one that has ended."""
    try:
        return int(_read(f"{PROC}/{pid}/stat").rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process; an empty list where there is no /proc."""
    found: list[int] = []
    left = [pid]
    while left:
        below = children_of(left.pop())
        found += below
        left += below
    return found


def signal_process(pid: int, number: int) -> None:
    """Send a signal to a process; does nothing when it has ended or belongs to another user."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def is_running(pid: int) -> bool:
    """Whether there is a process with this id, of any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def signal_group(pid: int, number: int) -> None:
    """Send a signal to the group of a process that leads one; does nothing when the group is empty."""
    with suppress(ProcessLookupError, PermissionError):  # macOS reports EPERM for a group of zombies
        os.killpg(pid, number)


def kill_process_and_group(pid: int) -> None:
    """Kill a process and its group; it may not lead one yet."""
    signal_group(pid, signal.SIGKILL)
    signal_process(pid, signal.SIGKILL)


def kill_marked(first: int, mark: bytes) -> None:
    """Kill every process whose environment contains `mark` (`NAME=value`). Needs /proc.

    Only processes that started after process `first` are checked. A process during exec shows an empty environment
    for a moment, like one that has ended; it is checked again.
    """
    unclear = MAX_EMPTY_CHECKS
    for _ in range(MAX_STRAY_ROUNDS):
        seen = {pid: environment_of(pid) for pid in process_ids() if pid > first}
        marked = [pid for pid, variables in seen.items() if variables and mark in variables]
        for pid in marked:
            signal_process(pid, signal.SIGKILL)
        if not marked:
            if unclear == 0 or [] not in seen.values():
                return
            unclear -= 1
            time.sleep(0.001)


def reap_child(before: Callable[[int], None] = lambda pid: None) -> tuple[int, int] | None:
    """Reap one child that has ended: its process id and wait status; None when all children still run.

    `before` gets the process id while the child is a zombie, so that the id of its group is not reused; where the
    system has no `waitid` (macOS before Python 3.13), right after that. Raises ChildProcessError without children.
    """
    if hasattr(os, "waitid"):
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        before(found.si_pid)
        return os.waitpid(found.si_pid, 0)
    pid, status = os.waitpid(-1, os.WNOHANG)
    if not pid:
        return None
    before(pid)
    return pid, status


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


class Reaper:
    """The descendants of this process, and the program among them.

    `prepare` is called in the process of the program before the program itself: it confines the process. When it raises
    OSError, the program does not run.
    """

    def __init__(
        self, control: socket.socket, folder: str, command: list[str], prepare: Callable[[], None] = lambda: None
    ) -> None:
        self._control = control
        self._prepare = prepare
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        self.is_running = True
        self.exit_code = 0
        """The exit code of the program once it has ended; negative: the signal that ended it."""
        self.child = self._start(folder, command)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def _start(self, folder: str, command: list[str]) -> int:
        child = os.fork()
        if child:
            return child
        try:
            os.setsid()
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            if folder:
                os.chdir(folder)
            self._prepare()
            os.execv(command[0], command)
        except OSError as problem:
            os.write(2, f"{command[0]} cannot be run: {problem}\n".encode())
        os._exit(126)

    def serve(self) -> None:
        """Obey until the owner has gone or the program has ended; then end every descendant."""
        self.report(f"pid {self.child}")
        self.reap()  # it may have ended before the signal handler was set
        poll = select.poll()
        for source in (self._control.fileno(), self._wake):
            poll.register(source, select.POLLIN)
        while self.is_running:
            ready = {number for number, _ in poll.poll()}
            if self._wake in ready:
                self._on_wake()
            if self._control.fileno() in ready and not self._obey(self._read_order()):
                return self.end_descendants(TERMINATION_GRACE_SECONDS)
        self.end_descendants(LINGER_SECONDS)

    def _read_order(self) -> bytes:
        try:
            return self._control.recv(1)
        except OSError:  # the owner died before it read everything
            return b""

    def _on_wake(self) -> None:
        os.read(self._wake, 4096)
        self.reap()

    def _obey(self, order: bytes) -> bool:
        if order:
            self.signal(signal.SIGKILL if order == b"K" else signal.SIGTERM)
        return bool(order)

    def end_descendants(self, grace: float) -> None:
        """Send SIGTERM to all, and after `grace` seconds SIGKILL, repeated until no descendant is left."""
        self.signal(signal.SIGTERM)
        until = time.monotonic() + grace
        while self.reap():
            if time.monotonic() >= until:
                self.signal(signal.SIGKILL)
            time.sleep(POLL_SECONDS)

    def reap(self) -> bool:
        """Reap every descendant that has ended; return whether others are left."""
        while True:
            try:
                ended = reap_child()
            except ChildProcessError:
                return False
            if ended is None:
                return True
            pid, status = ended
            if pid == self.child:
                self.is_running = False
                self.exit_code = os.waitstatus_to_exitcode(status)
                self.report(f"exit {self.exit_code}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every descendant, at any depth."""
        for pid in descendants(os.getpid()) or ([-self.child] if self.is_running else []):
            signal_process(pid, number)

    def report(self, line: str) -> None:
        """Write a line to the owner; does nothing when the owner has gone."""
        try:
            self._control.send(line.encode() + b"\n")
        except OSError:
            return


def main(arguments: list[str], prepare: Callable[[], None] = lambda: None) -> None:
    """Run as a program: `arguments` are those of the module's docstring, `prepare` is that of `Reaper`."""
    control = socket.socket(fileno=int(arguments[0]))
    control.set_inheritable(False)
    adopt_orphans()
    reaper = Reaper(control, arguments[1], arguments[2:], prepare)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    reaper.serve()
    sys.exit(reaper.exit_code if reaper.exit_code >= 0 else SIGNALLED - reaper.exit_code)


if __name__ == "__main__":
    main(sys.argv[1:])
