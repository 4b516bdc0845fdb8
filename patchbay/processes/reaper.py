"""A small program that stands between a client and a server it started, so that nothing of the server outlives it.

    python -I -S reaper.py CONTROL FOLDER PROGRAM ARGUMENT...

It runs PROGRAM in a session of its own on the standard streams it was given, keeps none of them, and becomes the
parent of every descendant that loses its own (Linux). On the socket with the descriptor CONTROL it says `pid N` and,
when the program has ended, `exit N`, and obeys `T` (SIGTERM to every descendant) and `K` (SIGKILL). When the socket
ends, because its owner closed it or died in any way, it does both. It ends when no descendant is left.

It is run by its path and imports nothing of the package: it has to be up in milliseconds.
Sources: REQUIREMENTS JN-1; THREATS X18; prctl(2) PR_SET_CHILD_SUBREAPER.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import time

ADOPT = 36
"""PR_SET_CHILD_SUBREAPER."""

TERMINATION_GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL when the owner has gone."""

LINGER_SECONDS = 0.5
"""The same for what the program left behind when it ended by itself."""

POLL_SECONDS = 0.02


class Reaper:
    """The descendants of this process, and the one that was asked for."""

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
        """Obey, until the owner has gone or the program has ended; then leave nothing."""
        self.say(f"pid {self.child}")
        self.bury()  # it may have ended before anybody listened for that
        poll = select.poll()
        for source in (self._control.fileno(), self._wake):
            poll.register(source, select.POLLIN)
        while self.alive:
            ready = {number for number, _ in poll.poll()}
            if self._wake in ready:
                self._wakeful()
            if self._control.fileno() in ready and not self._obey(self._order()):
                return self.clear(TERMINATION_GRACE_SECONDS)
        self.clear(LINGER_SECONDS)

    def _order(self) -> bytes:
        try:
            return self._control.recv(1)
        except OSError:  # the owner died with something of ours unread
            return b""

    def _wakeful(self) -> None:
        os.read(self._wake, 4096)
        self.bury()

    def _obey(self, order: bytes) -> bool:
        if order:
            self.signal(signal.SIGKILL if order == b"K" else signal.SIGTERM)
        return bool(order)

    def clear(self, grace: float) -> None:
        """SIGTERM to all, SIGKILL after `grace` seconds to what is left, again until nothing is."""
        self.signal(signal.SIGTERM)
        until = time.monotonic() + grace
        while self.bury():
            if time.monotonic() >= until:
                self.signal(signal.SIGKILL)
            time.sleep(POLL_SECONDS)

    def bury(self) -> bool:
        """Take every descendant that has ended; whether there are others."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self.child:
                self.alive = False
                self.say(f"exit {os.waitstatus_to_exitcode(status)}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every descendant, children's children too."""
        for pid in descendants(os.getpid()) or ([-self.child] if self.alive else []):
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue  # it ended meanwhile, or became somebody else, whom we may not end

    def say(self, line: str) -> None:
        """Tell the owner, if there still is one."""
        try:
            self._control.send(line.encode() + b"\n")
        except OSError:
            return


def descendants(pid: int) -> list[int]:
    """All processes below one; none where there is no /proc."""
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
        ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    warden = Reaper(control, arguments[1], arguments[2:])
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    warden.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
