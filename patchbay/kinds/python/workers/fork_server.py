"""The fork server process: it forks workers quickly, kills them on request, and reaps everything that they leave.

It has imported everything that definitions commonly need, has one thread, and runs no foreign code, so that forking is
safe and fast. Each worker leads its own session and process group and adopts the orphans of its descendants. After its
end they come to this process: a child here that is not a worker is a leftover of one, and is killed. Then the hub gets
the exit status of the worker. When the hub is gone (its end of the control socket is closed), everything ends.

Source: prctl(2) PR_SET_CHILD_SUBREAPER.
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

from patchbay.kinds.python.workers.worker import run_worker
from patchbay.processes.confinement import landlock, namespaces, privacy
from patchbay.processes.confinement.protections import NAMESPACES, PRIVACY, Protections, active_protections
from patchbay.processes.limits import forbid_new_privileges, name_process
from patchbay.processes.process_trees import (
    adopt_orphans,
    children_of,
    kill_process_and_group,
    reap_child,
    signal_process,
)

ORDER = Struct("<BQd")
SPAWN, STOP, PING = 1, 2, 3
"""Orders: SPAWN (number; with the descriptors of link, output and exit status), STOP (number, seconds of grace), PING,
which is answered with a line feed. The first line to the hub is JSON: the active protections.
"""

ORPHAN_POLL_MILLISECONDS = 10
"""Milliseconds between two checks for orphans that do not end at once."""

REMINDER_SHARE = 0.1
"""Part of its grace after which a worker is signalled again: Python misses a signal just before a system call."""

END_ALL_SECONDS = 2.0
"""Seconds in which everything must end after the hub is gone."""

PRELOADED = (asyncio, concurrent.futures, subprocess, tempfile, threading)
"""Imported here so that no worker needs to import them."""


@dataclass(slots=True)
class Child:
    """One worker: its number in the hub, its process, the descriptor for its exit status, its working folder."""

    number: int
    pid: int
    fate: int
    folder: Path


class ForkServer:
    """All workers of one fork server. `folder` is created, and removed in the end."""

    def __init__(self, control: int, folder: Path, protections: Protections | None = None) -> None:
        self._control = socket.socket(fileno=control)
        self._folder = folder
        self._children: dict[int, Child] = {}
        self._numbers: dict[int, Child] = {}
        self._cleaners: set[int] = set()
        self._deadlines: list[tuple[float, int, signal.Signals]] = []
        self._ending = False
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
        self._write(orjson.dumps({"names": self._protections.names, "landlock": landlock.version()}) + b"\n")
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while self._serving:
            ready = {fd for fd, _ in poll.poll(self._poll_timeout())}
            if self._woken in ready:
                self._drain_wakeups()
            self._reap_children()
            if self._sweeping:
                self._kill_orphans()
            self._send_due_signals()
            if self._control.fileno() in ready:
                self._serving = self._obey() and self._serving
        self._end()

    def _poll_timeout(self) -> int | None:
        """Return the milliseconds until the next signal is due; None without a pending one."""
        if self._sweeping:
            return ORPHAN_POLL_MILLISECONDS
        if not self._deadlines:
            return None
        return max(0, int((self._deadlines[0][0] - time.monotonic()) * 1000) + 1)

    def _write(self, words: bytes) -> None:
        """Write to the hub, without waiting for it: it asks again."""
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
            self._write(b"\n")
        elif number in self._numbers:
            self._stop(self._numbers[number], seconds)
        return True

    def _spawn(self, number: int, link: int, output: int, fate: int) -> None:
        folder = self._folder / str(number)
        try:
            folder.mkdir()
            pid = os.fork()
        except OSError as problem:
            self._report_exit(fate, {"error": problem.strerror})
            pid = -1
        if pid == 0:
            self._become_worker(link, output, folder)
        os.close(link)
        os.close(output)
        if pid > 0:
            self._numbers[number] = self._children[pid] = Child(number, pid, fate, folder)

    def _become_worker(self, link: int, output: int, folder: Path) -> None:
        """Become a worker in the forked process; keep only the modules of the fork server. Does not return."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            self._control.detach()
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.closerange(3, link)
            os.closerange(link + 1, 1 << 20)
            run_worker(link, 0 if self._init else self._pid, folder, self._protections)
        finally:
            os._exit(1)

    def _stop(self, child: Child, grace: float) -> None:
        now = time.monotonic()
        if grace > 0:
            os.kill(child.pid, signal.SIGUSR2)
            heapq.heappush(self._deadlines, (now + grace * REMINDER_SHARE, child.number, signal.SIGUSR2))
        heapq.heappush(self._deadlines, (now + grace, child.number, signal.SIGKILL))

    def _send_due_signals(self) -> None:
        """Signal the workers whose time has come; a child that is not reaped yet keeps its process id."""
        while self._deadlines and self._deadlines[0][0] <= time.monotonic():
            _, number, what = heapq.heappop(self._deadlines)
            child = self._numbers.get(number)
            if child is not None and what is signal.SIGKILL:
                kill_process_and_group(child.pid)
            elif child is not None:
                os.kill(child.pid, what)

    def _reap_children(self) -> None:
        """Reap everything that has ended: workers, orphans, cleaners."""
        orphans = False
        with suppress(ChildProcessError):
            while ended := reap_child(self._kill_group_of_worker):
                pid, status = ended
                child = self._children.pop(pid, None)
                if child is not None:
                    self._numbers.pop(child.number, None)
                    self._kill_orphans()
                    self._clean(child.folder)
                    self._report_exit(child.fate, {"code": os.waitstatus_to_exitcode(status), "ending": self._ending})
                elif pid in self._cleaners:
                    self._cleaners.discard(pid)
                elif pid == self._init:
                    self._init_ended()
                else:
                    orphans = True
        if orphans:
            self._kill_orphans()

    def _kill_group_of_worker(self, pid: int) -> None:
        if pid in self._children:
            kill_process_and_group(pid)

    def _kill_orphans(self) -> None:
        """Kill leftovers of workers; keep checking the init process, which adopts orphans, until it has none."""
        orphans = children_of(self._init) if self._init else []
        self._sweeping = bool(orphans)
        known = {*self._children, *self._cleaners, self._init}
        for pid in (*orphans, *children_of(self._pid)):
            if pid not in known:
                signal_process(pid, signal.SIGKILL)

    def _init_ended(self) -> None:
        """Stop serving: the namespace takes no worker without its init process. The hub starts another server."""
        self._init = 0
        self._serving = False

    def _clean(self, folder: Path) -> None:
        """Remove a worker's folder; a folder with content in a process of its own, because that may take long."""
        try:
            folder.rmdir()
        except OSError:
            with suppress(OSError):  # no more processes: it is removed with the parent folder in the end
                self._remove(folder)

    def _remove(self, folder: Path) -> None:
        pid = os.fork()
        if pid == 0:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
        self._cleaners.add(pid)

    def _report_exit(self, fate: int, story: dict[str, object]) -> None:
        with suppress(BrokenPipeError):
            os.write(fate, orjson.dumps(story))
        os.close(fate)

    def _end(self) -> None:
        self._ending = True
        until = time.monotonic() + END_ALL_SECONDS
        while (self._children or set(children_of(self._pid)) - {self._init}) and time.monotonic() < until:
            for pid in self._children:
                kill_process_and_group(pid)
            self._kill_orphans()
            self._reap_children()
            time.sleep(0.005)
        if self._init:
            kill_process_and_group(self._init)
        shutil.rmtree(self._folder, ignore_errors=True)


def main(
    control: int, folder: str, wanted: Sequence[str] = (), hidden: Sequence[str] = (), kept: Sequence[str] = ()
) -> None:
    """Run the fork server; `control` is its end of the control socket.

    `wanted` are protections, `hidden` the folders that no worker may read; its own `folder` becomes one of them. `kept`
    are folders that no worker may change.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        # A signal to every process of the hub is for the hub, which ends this process when its calls are done.
        signal.signal(number, signal.SIG_IGN)
    name_process("patchbay-hosts")
    adopt_orphans()
    forbid_new_privileges()
    gc.collect()
    gc.freeze()
    places = tuple(Path(path).resolve() for path in (*hidden, folder))
    protections = Protections(active_protections(wanted), places, tuple(Path(path).resolve() for path in kept))
    ForkServer(control, Path(folder).resolve(), protections).run()
    sys.exit(0)
