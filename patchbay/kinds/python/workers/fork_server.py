"""The zygote process: forks hosts quickly, kills them when told to, and buries all that is left of them.

It has everything imported that definitions commonly need, one thread, and runs nobody's code, so
that forking is safe and fast. Each host leads a session and a process group of its own and adopts
the orphans of its own descendants. When it has ended, they come to this process: so a child here
that is no host is left over from one, and is killed. Then the hub is told how the host ended.
When the hub is gone (its end of the control socket is closed, however it died), everything ends.
Sources: DESIGN section 6; THREATS X2, X3; prctl(2) PR_SET_CHILD_SUBREAPER.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import heapq
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

import orjson

from patchbay.kinds.python.workers.worker import live
from patchbay.processes.confinement import landlock, namespaces, privacy
from patchbay.processes.confinement.protections import NAMESPACES, PRIVACY, Protections, active_protections
from patchbay.processes.limits import count_user_tasks, forbid_new_privileges, name_process
from patchbay.processes.process_trees import adopt_orphans

ORDER = Struct("<BQd")
SPAWN, STOP, PING = 1, 2, 3
"""Orders: SPAWN (number; with the descriptors of link, output and fate), STOP (number, seconds of grace), PING, which
is answered with a line feed. The first line that the hub gets is JSON: which protections are in force."""

SWEEP = 10
"""Milliseconds between two looks at orphans that do not end at once."""

REMINDER = 0.1
"""Part of its grace after which a host is told again: Python misses a signal that comes just before a system call."""

FAREWELL = 2.0
"""Seconds in which everything is to have ended when the hub is gone."""

PRELOADED = (asyncio, concurrent.futures, subprocess, tempfile, threading)
"""Imported here so that no host has to."""


@dataclass(slots=True)
class Child:
    """One host: its number in the hub, its process, where its end is told, its working folder."""

    number: int
    pid: int
    fate: int
    folder: Path


class ForkServer:
    """All hosts of one zygote. `folder` is made, and is empty in the end."""

    def __init__(self, control: int, folder: Path, protections: Protections | None = None) -> None:
        self._control = socket.socket(fileno=control)
        self._folder = folder
        self._children: dict[int, Child] = {}
        self._numbers: dict[int, Child] = {}
        self._cleaners: set[int] = set()
        self._deadlines: list[tuple[float, int, signal.Signals]] = []
        self._ending = False
        self._tasks = count_user_tasks()
        self._pid = os.getpid()
        self._protections = protections or Protections()
        self._init = 0
        self._sweeping = False
        self._serving = True
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)

    def run(self) -> None:
        """Serve until the hub is gone."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if NAMESPACES in self._protections.names:
            self._init = namespaces.enter()
        if PRIVACY in self._protections.names:
            privacy.hide_memory()
        self._say(orjson.dumps({"names": self._protections.names, "landlock": landlock.version()}) + b"\n")
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while self._serving:
            ready = {fd for fd, _ in poll.poll(self._patience())}
            if self._woken in ready:
                self._drain_wakeups()
            self._bury_the_dead()
            if self._sweeping:
                self._kill_orphans()
            self._signal_the_late()
            if self._control.fileno() in ready:
                self._serving = self._obey() and self._serving
        self._end()

    def _patience(self) -> int | None:
        """Milliseconds until the next signal is due; None when no host has been told to end."""
        if self._sweeping:
            return SWEEP
        if not self._deadlines:
            return None
        return max(0, int((self._deadlines[0][0] - time.monotonic()) * 1000) + 1)

    def _say(self, words: bytes) -> None:
        """Tell the hub something, unless it does not listen: it asks again."""
        with suppress(OSError):
            self._control.send(words, socket.MSG_DONTWAIT)

    def _drain_wakeups(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._woken, 4096):
                pass

    def _obey(self) -> bool:
        try:
            order, fds, _, _ = socket.recv_fds(self._control, ORDER.size, 3)
        except ConnectionResetError:
            return False
        if len(order) < ORDER.size:
            return False
        what, number, seconds = ORDER.unpack(order)
        if what == SPAWN:
            self._spawn(number, *fds)
        elif what == PING:
            self._say(b"\n")
        elif number in self._numbers:
            self._stop(self._numbers[number], seconds)
        return True

    def _spawn(self, number: int, link: int, output: int, fate: int) -> None:
        folder = self._folder / str(number)
        try:
            folder.mkdir()
            pid = os.fork()
        except OSError as problem:
            self._tell(fate, {"unborn": problem.strerror})
            pid = -1
        if pid == 0:
            self._become(link, output, folder)
        os.close(link)
        os.close(output)
        if pid > 0:
            self._numbers[number] = self._children[pid] = Child(number, pid, fate, folder)

    def _become(self, link: int, output: int, folder: Path) -> None:
        """In the fork: keep nothing of the zygote but its modules, then be a host. Does not return."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            self._control.detach()
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.closerange(3, link)
            os.closerange(link + 1, 1 << 20)
            live(link, 0 if self._init else self._pid, folder, self._tasks, self._protections)
        finally:
            os._exit(1)

    def _stop(self, child: Child, grace: float) -> None:
        now = time.monotonic()
        if grace > 0:
            os.kill(child.pid, signal.SIGUSR2)
            heapq.heappush(self._deadlines, (now + grace * REMINDER, child.number, signal.SIGUSR2))
        heapq.heappush(self._deadlines, (now + grace, child.number, signal.SIGKILL))

    def _signal_the_late(self) -> None:
        """Remind and kill those whose time has come; a child that is not buried keeps its number to itself."""
        while self._deadlines and self._deadlines[0][0] <= time.monotonic():
            _, number, what = heapq.heappop(self._deadlines)
            child = self._numbers.get(number)
            if child is not None and what is signal.SIGKILL:
                _kill(child.pid)
            elif child is not None:
                os.kill(child.pid, what)

    def _bury_the_dead(self) -> None:
        """Everything that has ended: hosts, orphans, cleaners."""
        orphans = False
        with suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                pid = found.si_pid
                child = self._children.pop(pid, None)
                if child is not None:
                    # Still a zombie, so that the number of its group belongs to nobody else.
                    _kill(pid)
                _, status = os.waitpid(pid, 0)
                if child is not None:
                    self._numbers.pop(child.number, None)
                    self._kill_orphans()
                    self._clean(child.folder)
                    self._tell(child.fate, {"code": os.waitstatus_to_exitcode(status), "ending": self._ending})
                elif pid in self._cleaners:
                    self._cleaners.discard(pid)
                elif pid == self._init:
                    self._init_ended()
                else:
                    orphans = True
        if orphans:
            self._kill_orphans()

    def _kill_orphans(self) -> None:
        """Kill what hosts left behind. The init process gets orphans unseen: it is looked at until it has no more."""
        orphans = children_of(self._init) if self._init else []
        self._sweeping = bool(orphans)
        known = {*self._children, *self._cleaners, self._init}
        for pid in (*orphans, *children_of(self._pid)):
            if pid not in known:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _init_ended(self) -> None:
        """Without its init process the namespace takes no host any more: the hub starts another fork server."""
        self._init = 0
        self._serving = False

    def _clean(self, folder: Path) -> None:
        """Remove a host's folder; where there is something in it, in a process of its own, as that may take long."""
        try:
            folder.rmdir()
        except OSError:
            with suppress(OSError):  # no more processes: it goes with the folder of all, in the end
                self._remove(folder)

    def _remove(self, folder: Path) -> None:
        pid = os.fork()
        if pid == 0:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
        self._cleaners.add(pid)

    def _tell(self, fate: int, story: dict[str, object]) -> None:
        with suppress(BrokenPipeError):
            os.write(fate, orjson.dumps(story))
        os.close(fate)

    def _end(self) -> None:
        self._ending = True
        until = time.monotonic() + FAREWELL
        while (self._children or set(children_of(self._pid)) - {self._init}) and time.monotonic() < until:
            for pid in self._children:
                _kill(pid)
            self._kill_orphans()
            self._bury_the_dead()
            time.sleep(0.005)
        if self._init:
            _kill(self._init)
        shutil.rmtree(self._folder, ignore_errors=True)


def _kill(pid: int) -> None:
    """Kill a host and its group; it may not lead one yet."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    """The children of a process of one thread; none where there is no /proc."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return [int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if _parent(stat) == pid]


def _parent(stat: Path) -> int:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):  # it ended meanwhile
        return 0


def main(
    control: int, folder: str, wanted: Sequence[str] = (), hidden: Sequence[str] = (), kept: Sequence[str] = ()
) -> None:
    """The zygote's whole life; `control` is its end of the control socket.

    `wanted` are protections, `hidden` the folders that no host may read; its own `folder` becomes one of them. `kept`
    are folders that no host may change.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        # A manager that tells every process to end means the hub, which ends us when its calls are done.
        signal.signal(number, signal.SIG_IGN)
    name_process("patchbay-hosts")
    adopt_orphans()
    forbid_new_privileges()
    gc.collect()
    gc.freeze()
    places = tuple(Path(one).resolve() for one in (*hidden, folder))
    protections = Protections(active_protections(wanted), places, tuple(Path(one).resolve() for one in kept))
    ForkServer(control, Path(folder).resolve(), protections).run()
    sys.exit(0)
