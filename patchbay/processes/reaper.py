"""A small program between a client and a server it started, so that no process of the server outlives the client.

    python -I -S reaper.py CONTROL FOLDER PROGRAM ARGUMENT...

It runs PROGRAM in its own session on the standard streams it was given, closes its own copies of them, and becomes the
parent of every descendant that loses its own parent (Linux). On the socket with the descriptor CONTROL it writes `pid
N` and, when the program has ended, `exit N`. It obeys `T` (SIGTERM to every descendant) and `K` (SIGKILL). When the
socket closes, because its owner closed it or died, it does both. It ends when it has no descendant left.

It is run by its path and imports only the standard library: it must start in milliseconds.

Source: prctl(2) PR_SET_CHILD_SUBREAPER.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER."""

TERMINATION_GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL when the owner has gone."""

LINGER_SECONDS = 0.5
"""Seconds between SIGTERM and SIGKILL for processes that the program left behind when it ended by itself."""

POLL_SECONDS = 0.02


class Reaper:
    """The descendants of this process, and the program among them."""

    def __init__(self, control: socket.socket, folder: str, command: list[str]) -> None:
        self._control = control
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        self.alive = True
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
        while self.alive:
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
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self.child:
                self.alive = False
                self.report(f"exit {os.waitstatus_to_exitcode(status)}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every descendant, at any depth."""
        for pid in descendants(os.getpid()) or ([-self.child] if self.alive else []):
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue  # it ended in the meantime, or has another user now

    def report(self, line: str) -> None:
        """Write a line to the owner; does nothing when the owner has gone."""
        try:
            self._control.send(line.encode() + b"\n")
        except OSError:
            return


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process; an empty list where there is no /proc."""
    found: list[int] = []
    left = [pid]
    while left:
        below = _children(left.pop())
        found += below
        left += below
    return found


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        words = [word for thread in threads for word in _read(f"/proc/{pid}/task/{thread}/children").split()]
    except OSError:
        return []
    return [int(word) for word in words]


def _read(path: str) -> str:
    with open(path) as file:  # noqa: PTH123
        return file.read()


def main(arguments: list[str]) -> None:
    """Run as a program."""
    control = socket.socket(fileno=int(arguments[0]))
    control.set_inheritable(False)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    reaper = Reaper(control, arguments[1], arguments[2:])
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    reaper.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
