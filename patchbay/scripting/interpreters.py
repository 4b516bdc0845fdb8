"""The processes that run scripts: a pool that is fair between principals, and whose processes know nothing of the hub.

A process runs one script at a time. It is kept for the next script of the same principal, and never gets one of another
principal. One that works for long in one go gets the lowest priority, and only a few of these work at the same time, so
that endless scripts take no processor from short ones; the others are stopped, and principals take turns. A principal
of which several worked for long gets processes that begin with a lower priority, for a while. A process that dies is
replaced: the pool starts a new one for the next script.

What counts as the work of a script is the processor time of its process: not the time in which it was stopped, or
waited for a processor. The watch ends a process that has used what its run had left.

`patchbay/processes/script_start.py` restricts each process before it becomes the interpreter.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from itertools import count, zip_longest
from pathlib import Path
from typing import TypeVar

from pydantic_monty import Monty
from pydantic_monty._binary import find_monty_binary

from patchbay.activation import PAUSE, Call, pauses
from patchbay.background import BackgroundLoop
from patchbay.errors import ToolFailed
from patchbay.events import Event
from patchbay.processes.confinement.kernel import LINUX
from patchbay.processes.processor_clock import ProcessorClock
from patchbay.scripting.program_folder import ProgramFolder

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
"""Scripts of a principal that work for long within SLOW_SECONDS before its next ones begin with LATER_PRIORITY."""

SLOW_SECONDS = 10.0

WATCH_SECONDS = 0.1

REQUEST_SECONDS = 120.0
"""Seconds after which the library ends a process that does not answer; the watch ends it long before."""

LATER_PRIORITY = 10
"""The priority after those of all good scripts, and before those of the endless ones of the same principal."""

LOWEST_PRIORITY = 19

_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from patchbay.processes.script_start import main; "
    "main(sys.argv[2], sys.argv[4:], int(sys.argv[3]), is_silent=True)"
)


class Interpreter:
    """One process, for the scripts of one principal. One thread at a time may use it."""

    def __init__(self, program: Path, principal: str, priority: int) -> None:
        self.principal = principal
        self.priority = priority
        self.idle_since = 0.0
        self.pid: int | None = None
        self._clock: ProcessorClock | None = None
        self.last_pid: int | None = None
        self.turn = 0
        """The number of the turn that runs now; 0 while the process waits."""
        self.served = 0
        """The number of the last permission to go on after it had worked for long; the pool counts them."""
        self.worked = 0.0
        """The seconds that the process had worked in its turn when the watch last looked."""
        self.reached = ""
        """The limit for which the watch ended the process: `running_seconds`, `wall_seconds`; "" for none."""
        self.spent = 0.0
        """The seconds that the last turn took of `running_seconds`."""
        self._turns = 0
        self._begun = 0
        self._most = self._until = math.inf
        self._looked = 0
        self._is_stopped = False
        self._signals = threading.Lock()
        """Held from a look at `turn` to the signal that follows: a process without a turn must not be stopped."""
        self.monty = Monty(binary_path=program, min_processes=1, max_processes=1, request_timeout=REQUEST_SECONDS)
        self.monty.__enter__()

    def begin(self, pid: int | None) -> None:
        """Note the id of the process, which works on a script from now on; None for one that has ended."""
        self.pid = pid
        self._clock = ProcessorClock(pid) if LINUX and pid is not None else None
        self._begun = self._used_nanoseconds()

    def work(self, function: Callable[[], Value], seconds: float = math.inf, until: float = math.inf) -> Value:
        """Return what a function returns that lets the process work: a turn.

        The watch ends a process that works for more than `seconds` in this turn, or beyond the `time.monotonic()` time
        `until`; `reached` has the limit then.
        """
        self._most, self._until = seconds, until
        if self._clock is None:
            self._begun = self._used_nanoseconds()
        self._turns += 1
        with self._signals:
            self.turn = self._turns
        try:
            return function()
        finally:
            with self._signals:
                self.turn = 0
                self._go_on()
            ended = self._used_nanoseconds()
            self.spent = min(max(0, ended - self._begun) / 1e9, seconds)
            self._begun = ended  # what it works from now on, the next turn counts

    def rest(self) -> None:
        """Note that the script of the process is over."""
        with self._signals:
            self._go_on()
            self.last_pid, self.pid, self.idle_since = self.pid, None, time.monotonic()

    def has_died(self) -> bool:
        """Whether the process of the last script is gone. An ended process is a zombie until its parent reads how."""
        if not LINUX or self.last_pid is None:
            return False
        try:
            return Path(f"/proc/{self.last_pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    def works_long(self) -> bool:
        """Whether the process has worked for long in one go, and still does."""
        self.worked = self._worked_seconds() if self.turn else 0.0
        return self.worked > LONG_TURN_SECONDS

    def is_first_look(self) -> bool:
        """Whether this is asked for the first time in the present turn."""
        is_first = self._looked != self._turns
        self._looked = self._turns
        return is_first

    def slow_down(self) -> None:
        """Give the process the lowest priority."""
        if self.priority != LOWEST_PRIORITY and self.pid is not None:
            self.priority = LOWEST_PRIORITY
            _lower_priority(self.pid)

    def stop(self, turn: int) -> None:
        """Stop the process in the middle of this turn; does nothing when the turn is over."""
        with self._signals:
            if turn and self.turn == turn and not self._is_stopped:
                self._is_stopped = True
                self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let a stopped process go on."""
        with self._signals:
            self._go_on()

    def end_if_over(self) -> None:
        """End the process if its turn has used what its run had left."""
        with self._signals:
            if self.turn and not self.reached:
                if self._worked_seconds() > self._most:
                    self.reached = "running_seconds"
                elif time.monotonic() > self._until:
                    self.reached = "wall_seconds"
                if self.reached:
                    self._send(signal.SIGKILL)

    def kill(self) -> None:
        """End the process in the middle of its work."""
        self._send(signal.SIGKILL)

    def _worked_seconds(self) -> float:
        """Return how long the process has worked since its turn began; 0 for one that has died."""
        return max(0, self._used_nanoseconds() - self._begun) / 1e9

    def _used_nanoseconds(self) -> int:
        """Return what the process has worked. Without a clock of its work, all time of a turn counts."""
        return self._clock.nanoseconds() if self._clock is not None else time.monotonic_ns()

    def _go_on(self) -> None:
        """Let a stopped process go on. The caller holds the lock."""
        if self._is_stopped:
            self._is_stopped = False
            self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        if self.pid is not None:
            with suppress(OSError):
                os.kill(self.pid, number)

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
        self._folder = ProgramFolder()
        self._programs = {one: _write_program(self._folder.path, one) for one in (0, LATER_PRIORITY)}
        self._long: dict[str, list[float]] = {}
        """When scripts of each principal began to work for long, within SLOW_SECONDS."""
        self._permissions = count(1)
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
        interpreter.rest()
        surplus = []
        with self._lock:
            self._busy.discard(interpreter)
            # The priority of a process cannot be raised again.
            if is_whole and not self._closed and interpreter.priority != LOWEST_PRIORITY:
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
        self._folder.close()

    def _find(self, principal: str) -> Interpreter:
        """Return a waiting process of a principal, or a new one. Raises ToolFailed."""
        with self._lock:
            priority = LATER_PRIORITY if self._is_slow(principal) else 0
            fitting = (one for one in reversed(self._idle) if one.principal == principal and one.priority == priority)
            found = next(fitting, None)
            if found is not None:
                self._idle.remove(found)
        if found is not None and found.has_died():
            found.close()
            found = None
        if found is None:
            try:
                found = Interpreter(self._programs[priority], principal, priority)
            except (OSError, RuntimeError) as problem:
                raise ToolFailed(f"the interpreter of scripts cannot be started: {problem}") from problem
        with self._lock:
            self._busy.add(found)
        self._watch.start()
        return found

    def _is_slow(self, principal: str) -> bool:
        """Whether scripts of a principal begin with LATER_PRIORITY now. The caller holds the lock."""
        since = time.monotonic() - SLOW_SECONDS
        known = [one for one in self._long.get(principal, ()) if one >= since][-MAX_LONG_SCRIPTS:]
        if known:
            self._long[principal] = known
        else:
            self._long.pop(principal, None)
        return len(known) >= MAX_LONG_SCRIPTS

    def _restrain(self, long: list[Interpreter]) -> None:
        """Let only a few of the processes that work for long go on; which ones changes from round to round."""
        turns = {one: one.turn for one in long}
        for one in long:
            if one.is_first_look():
                with self._lock:
                    self._long.setdefault(one.principal, []).append(time.monotonic())
            one.slow_down()
        chosen = next_turns(long)
        for one in chosen:
            one.served = next(self._permissions)
            one.go_on()
        for one in turns.keys() - chosen:
            one.stop(turns[one])

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
        for one in busy:
            one.end_if_over()
        self._restrain([one for one in busy if one.works_long()])
        for one in old:
            one.close()
        if is_over:
            return None
        return WATCH_SECONDS if busy else IDLE_SECONDS / 4


def next_turns(long: Iterable[Interpreter]) -> list[Interpreter]:
    """Return the processes that may go on: principals take turns, and of each one those that worked least go first.

    So endless scripts take turns with each other, not with the scripts of another principal, and a script that works
    for a second is not kept waiting by the endless ones of its own principal.
    """
    queues: dict[str, list[Interpreter]] = {}
    for one in sorted(long, key=lambda one: one.worked):
        queues.setdefault(one.principal, []).append(one)
    principals = sorted(queues.values(), key=lambda queue: max(one.served for one in queue))
    in_order = [one for tier in zip_longest(*principals) for one in tier if one is not None]
    return in_order[:MAX_LONG_TURNS]


def _write_program(folder: Path, priority: int) -> Path:
    """Write a program that the pool starts: it restricts itself and becomes the interpreter. Raises ToolFailed."""
    try:
        # No public name of the package finds its program; its pool finds it in the same way.
        interpreter = str(Path(find_monty_binary()).resolve())
    except FileNotFoundError as problem:
        raise ToolFailed("the program monty of the package pydantic-monty-runtime is missing") from problem
    paths = json.dumps([os.path.abspath(one) for one in sys.path])  # noqa: PTH100 (an entry may be a file)
    words = shlex.join([sys.executable, "-I", "-S", "-c", _START, paths, interpreter, str(priority)])
    program = folder / f"script-{priority}"
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o700)
    return program


def _lower_priority(pid: int) -> None:
    """Give all threads of a process the lowest priority; Linux has one for each thread."""
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), LOWEST_PRIORITY)
