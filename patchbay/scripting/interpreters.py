"""The processes that run scripts: a pool that is fair between principals, and whose processes know nothing of the hub.

A process runs one script at a time. It is kept for the next script of the same principal, and never gets one of another
principal. One that works for long in one go gets the lowest priority, and only a few of these work at the same time, so
that endless scripts take no processor from short ones. A principal of which several worked for long gets processes that
begin with the lowest priority, for a while. A process that dies is replaced: the pool starts a new one for the next
script.

`patchbay/processes/script_start.py` restricts each process before it becomes the interpreter.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar

from pydantic_monty import Monty
from pydantic_monty._binary import find_monty_binary

from patchbay.activation import PAUSE, Call, pauses
from patchbay.background import BackgroundLoop
from patchbay.errors import ToolFailed
from patchbay.events import Event
from patchbay.processes.confinement.kernel import LINUX

Value = TypeVar("Value")

MAX_PROCESSES = 32
"""Scripts that run at the same time in this process of the hub."""

RESERVED = 8
"""Of these, the places that only a principal with fewer than RESERVED_EACH running scripts gets."""

RESERVED_EACH = 2

MAX_WAITING = 200
"""Scripts that wait for a place."""

MAX_IDLE = 8
"""Processes that wait for a next script."""

IDLE_SECONDS = 60.0
"""Seconds after which a process without a script ends."""

LONG_TURN_SECONDS = 0.25
"""Processor seconds that a process works in one go before its priority is lowered."""

MAX_LONG_TURNS = 2
"""Processes that may go on at the same time after LONG_TURN_SECONDS; the others are stopped, and all take turns."""

MAX_LONG_SCRIPTS = 3
"""Scripts of a principal that work for long within SLOW_SECONDS before its next ones begin with the lowest priority."""

SLOW_SECONDS = 10.0

WATCH_SECONDS = 0.1
LOWEST_PRIORITY = 19

_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from patchbay.processes.script_start import main; main(sys.argv[2], sys.argv[4:], int(sys.argv[3]))"
)


class Interpreter:
    """One process, for the scripts of one principal. One thread at a time may use it."""

    def __init__(self, program: Path, principal: str, is_slowed: bool) -> None:
        self.principal = principal
        self.idle_since = 0.0
        self.pid: int | None = None
        self.last_pid: int | None = None
        self.is_slowed = is_slowed
        """Whether it has the lowest priority."""
        self.turn = 0
        """The number of the turn that runs now; 0 while the process waits."""
        self._turns = 0
        self._watched = (0, 0)
        self._looked = 0
        self._is_stopped = False
        self.monty = Monty(binary_path=program, min_processes=1, max_processes=1)
        self.monty.__enter__()

    def work(self, function: Callable[[], Value]) -> Value:
        """Return what a function returns that lets the process work."""
        self._turns += 1
        self.turn = self._turns
        try:
            return function()
        finally:
            self.turn = 0

    def has_died(self) -> bool:
        """Whether the process of the last script is gone. It is a zombie until somebody waits for it."""
        if not LINUX or self.last_pid is None:
            return False
        try:
            return Path(f"/proc/{self.last_pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    def works_long(self) -> bool:
        """Whether the process has worked for long in one go, and still does. Called now and then."""
        turn, pid = self.turn, self.pid
        if not turn or pid is None:
            return False
        used = _processor_nanoseconds(pid)
        if self._watched[0] != turn:
            self._watched = (turn, used)
        return used - self._watched[1] > LONG_TURN_SECONDS * 1e9

    def is_first_look(self) -> bool:
        """Whether this is asked for the first time in the present turn."""
        is_first = self._looked != self._watched[0]
        self._looked = self._watched[0]
        return is_first

    def slow_down(self) -> None:
        """Give the process the lowest priority."""
        if not self.is_slowed and self.pid is not None:
            self.is_slowed = True
            _lower_priority(self.pid)

    def stop(self, is_stopped: bool) -> None:
        """Stop the process in the middle of its work, or let it go on."""
        if self._is_stopped != is_stopped and self.pid is not None:
            self._is_stopped = is_stopped
            with suppress(OSError):
                os.kill(self.pid, signal.SIGSTOP if is_stopped else signal.SIGCONT)

    def kill(self) -> None:
        """End the process in the middle of its work."""
        if self.pid is not None:
            with suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process."""
        self.monty.__exit__(None, None, None)


class _Ticket:
    """A script that waits for a place."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.is_granted = threading.Event()


class Interpreters:
    """The pool of processes. Safe to use from many threads; `close` ends all processes."""

    def __init__(self, limit: int = MAX_PROCESSES, reserved: int = RESERVED) -> None:
        self._limit, self._reserved = limit, reserved
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._waiting: list[_Ticket] = []
        self._idle: list[Interpreter] = []
        self._busy: set[Interpreter] = set()
        self._closed = False
        self._folder = Path(mkdtemp(prefix="patchbay-scripts-"))
        self._programs = {
            is_slowed: _write_program(self._folder, LOWEST_PRIORITY if is_slowed else 0) for is_slowed in (False, True)
        }
        self._long: dict[str, list[float]] = {}
        """When scripts of each principal began to work for long, within SLOW_SECONDS."""
        self._rounds = 0
        self._watch = BackgroundLoop("scripts", self._look, "the watch over scripts failed")

    def take(self, call: Call) -> Generator[Event, None, Interpreter]:
        """Wait for a place, and return a process for a script of this call; `give_back` gives the place free.

        Raises ToolFailed when too many scripts wait, or the process cannot be started.
        """
        ticket = _Ticket(call.principal)
        with self._lock:
            if self._closed:
                raise ToolFailed("the hub is ending")
            if len(self._waiting) >= MAX_WAITING:
                raise ToolFailed(f"{MAX_WAITING} scripts wait already to be run; try again later")
            self._waiting.append(ticket)
            self._grant()
        interpreter = None
        try:
            for seconds in pauses(call):
                if ticket.is_granted.wait(seconds):
                    break
                yield PAUSE
            interpreter = self._find(call.principal)
        finally:
            if interpreter is None:
                self._withdraw(ticket)
        return interpreter

    def give_back(self, interpreter: Interpreter, is_whole: bool) -> None:
        """Take a process back. One that is not `is_whole` ends: its script failed in a way that may have harmed it."""
        keeps = is_whole
        interpreter.last_pid, interpreter.pid, interpreter.idle_since = interpreter.pid, None, time.monotonic()
        surplus = []
        with self._lock:
            self._busy.discard(interpreter)
            if keeps and not self._closed:
                self._idle.append(interpreter)
            else:
                surplus.append(interpreter)
            while len(self._idle) > MAX_IDLE:
                surplus.append(self._idle.pop(0))
            self._release(interpreter.principal)
        for one in surplus:
            one.close()

    def count(self) -> int:
        """Return the number of scripts that have a place now."""
        return self._held.total()

    def close(self) -> None:
        """End all processes. A run that goes on fails."""
        with self._lock:
            self._closed = True
            ended = [*self._idle, *self._busy]
            self._idle.clear()
        self._watch.stop()
        for one in ended:
            with suppress(Exception):  # a process that works right now ends with its run
                one.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _find(self, principal: str) -> Interpreter:
        """Return a waiting process of a principal, or a new one. Raises ToolFailed."""
        with self._lock:
            is_slow = self._is_slow(principal)
            fitting = (one for one in reversed(self._idle) if one.principal == principal and one.is_slowed == is_slow)
            found = next(fitting, None)
            if found is not None:
                self._idle.remove(found)
        if found is not None and found.has_died():
            found.close()
            found = None
        if found is None:
            try:
                found = Interpreter(self._programs[is_slow], principal, is_slow)
            except (OSError, RuntimeError) as problem:
                raise ToolFailed(f"the interpreter of scripts cannot be started: {problem}") from problem
        with self._lock:
            self._busy.add(found)
        self._watch.start()
        return found

    def _is_slow(self, principal: str) -> bool:
        """Whether scripts of a principal begin with the lowest priority now. The caller holds the lock."""
        since = time.monotonic() - SLOW_SECONDS
        known = [one for one in self._long.get(principal, ()) if one >= since][-MAX_LONG_SCRIPTS:]
        if known:
            self._long[principal] = known
        else:
            self._long.pop(principal, None)
        return len(known) >= MAX_LONG_SCRIPTS

    def _restrain(self, long: list[Interpreter]) -> None:
        """Let only a few of the processes that work for long go on; which ones changes from round to round."""
        for place, one in enumerate(long):
            if one.is_first_look():
                with self._lock:
                    self._long.setdefault(one.principal, []).append(time.monotonic())
            one.slow_down()
            one.stop((place + self._rounds) % len(long) >= MAX_LONG_TURNS)

    def _withdraw(self, ticket: _Ticket) -> None:
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            else:
                self._release(ticket.principal)

    def _release(self, principal: str) -> None:
        """Give a place free, to the next script that waits. The caller holds the lock."""
        self._held[principal] -= 1
        if not self._held[principal]:
            del self._held[principal]
        self._grant()

    def _grant(self) -> None:
        """Give places to scripts that wait: first to principals with the fewest. The caller holds the lock."""
        while self._waiting:
            ticket = min(self._waiting, key=lambda one: self._held[one.principal])
            used = self._held.total()
            most = self._limit if self._held[ticket.principal] < RESERVED_EACH else self._limit - self._reserved
            if used >= most:
                return
            self._waiting.remove(ticket)
            self._held[ticket.principal] += 1
            ticket.is_granted.set()

    def _look(self) -> float | None:
        """Lower priorities and end what has been idle; None when there is nothing left to look after."""
        now = time.monotonic()
        with self._lock:
            busy = list(self._busy)
            old = [one for one in self._idle if now - one.idle_since >= IDLE_SECONDS]
            self._idle = [one for one in self._idle if one not in old]
            is_over = not busy and not self._idle
        self._rounds += 1
        self._restrain([one for one in busy if one.works_long()])
        for one in old:
            one.close()
        if is_over:
            return None
        return WATCH_SECONDS if busy else IDLE_SECONDS / 4


def _write_program(folder: Path, priority: int) -> Path:
    """Write a program that the pool starts: it restricts itself and becomes the interpreter. Raises ToolFailed."""
    try:
        interpreter = str(Path(find_monty_binary()).resolve())
    except FileNotFoundError as problem:
        raise ToolFailed("the program monty of the package pydantic-monty-runtime is missing") from problem
    paths = json.dumps([os.path.abspath(one) for one in sys.path])  # noqa: PTH100 (an entry may be a file)
    words = shlex.join([sys.executable, "-I", "-S", "-c", _START, paths, interpreter, str(priority)])
    program = folder / f"script-{priority}"
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o700)
    return program


def _processor_nanoseconds(pid: int) -> int:
    """Return the time that the threads of a process have worked; 0 where the system does not say."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((one / "schedstat").read_text().split()[0]) for one in threads)
    except (OSError, ValueError, IndexError):
        return 0


def _lower_priority(pid: int) -> None:
    """Give all threads of a process the lowest priority; Linux has one for each thread."""
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), LOWEST_PRIORITY)
