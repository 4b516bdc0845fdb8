"""Runner threads: where a Python tool runs while the thread that asked for it waits, with a deadline.

A fast call costs one hand-off there and one back, over two `SimpleQueue`s and nothing else.
A runner whose call is given up (deadline, cancellation, caller gone) gets `Stopped` raised in its
Python code and ends; only one that finished its call in peace goes back to the pool. A thread that
is stuck in C code cannot be stopped: it counts against the pool's bound until it comes back.
Each pool belongs to one definition, so one that hangs starves nobody else.
Sources: DESIGN section 6; REQUIREMENTS T12.5, X-15, X-19; THREATS X2.
"""

from __future__ import annotations

import ctypes
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from queue import Empty, SimpleQueue
from typing import Any

from patchbay.activation import PAUSE, Call, Events, described, pauses
from patchbay.errors import ToolFailed
from patchbay.events import Ask, Detach, Event, Question

MAX_THREADS = 512
"""Most threads of one pool."""

IN_FLIGHT = 256
"""Most events of one call that nobody has taken yet; then the tool waits."""

IDLE_SECONDS = 60.0
"""Seconds after which a runner without work ends."""

RECHECK = 1.0
"""Seconds between two looks of a blocked tool at whether its call is over."""

CLEANUP_SECONDS = 1.0
"""Seconds that a process which ends waits for a tool to clean up whose call is over."""


class Stopped(SystemExit):
    """Raised in a tool whose call is over. No `except Exception` holds it, and a thread that it ends stays quiet."""


class PendingEvent:
    """An event on its way out, with the place where its answer is waited for."""

    __slots__ = ("event", "reply")

    def __init__(self, event: Ask | Detach) -> None:
        self.event = event
        self.reply: SimpleQueue[Any] = SimpleQueue()


Work = Callable[["RunnerCall"], list[Event]]


class RunnerCall:
    """One call on a runner. `out` carries events, then one list (the last events) or one exception."""

    __slots__ = ("abandoned", "loop", "out", "room", "runner", "work")

    def __init__(self, work: Work, runner: Runner) -> None:
        self.work = work
        self.runner = runner
        self.out: SimpleQueue[Event | PendingEvent | list[Event] | Exception] = SimpleQueue()
        self.room: threading.Semaphore | None = None
        self.loop: AbstractEventLoop | None = None
        self.abandoned = False

    def emit(self, event: Event | PendingEvent) -> None:
        """Send an event up; waits while too many are on their way. Raises Stopped when the call is over.

        A Detach is waited for: what comes after it may need the time that it gives, or not be allowed at all.
        """
        if isinstance(event, Detach):
            self._answer_to(event)
            return
        if self.room is None:
            self.room = threading.Semaphore(IN_FLIGHT)
        while not self.room.acquire(timeout=RECHECK):
            self._go_on()
        self._go_on()
        self.out.put(event)

    def ask(self, questions: Mapping[str, Question]) -> Any:
        """Send questions up and wait for what comes back: a map of results, or None. Raises Stopped."""
        return self._answer_to(Ask(questions))

    def _answer_to(self, event: Ask | Detach) -> Any:
        asked = PendingEvent(event)
        self.emit(asked)
        while True:
            try:
                return asked.reply.get(timeout=RECHECK)
            except Empty:
                self._go_on()

    def _go_on(self) -> None:
        if self.abandoned:
            raise Stopped


class Runner:
    """One thread of a pool. `lock` guards `job`: only a thread still at its job may be stopped."""

    __slots__ = ("inbox", "job", "lock", "pool", "thread")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.inbox: SimpleQueue[RunnerCall] = SimpleQueue()
        self.lock = threading.Lock()
        self.job: RunnerCall | None = None
        self.thread = threading.Thread(target=self._live, name=f"runner of {pool.name}", daemon=True)

    def _live(self) -> None:
        going = True
        with suppress(Stopped):
            while going:
                try:
                    going = self._serve(self.inbox.get(timeout=self.pool.patience))
                except Empty:
                    going = not self.pool.retire(self)

    def _serve(self, job: RunnerCall) -> bool:
        result = Context().run(_outcome, job)
        with self.lock:
            self.job = None
            if job.abandoned:
                return False
        # Idle first: whoever reads the result and calls again at once finds this runner.
        self.pool.idle.append(self)
        job.out.put(result)
        return True

    def abandon(self, job: RunnerCall) -> None:
        """Give a job up: stop its Python code, wake its event loop. Does nothing when it has ended."""
        with self.lock:
            if self.job is not job:
                return
            job.abandoned = True
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread.ident or 0), ctypes.py_object(Stopped)
            )
        if job.loop is not None:
            with suppress(RuntimeError):  # the loop has been closed in the meantime, which is what we want
                job.loop.call_soon_threadsafe(_nothing)

        with suppress(RuntimeError):  # no more threads: then nobody waits for what it still does
            threading.Thread(
                target=self.thread.join, args=(CLEANUP_SECONDS,), name="end of a tool", daemon=False
            ).start()


def _nothing() -> None:
    """Wakes an event loop, so that its thread notices that it has to stop."""


def _outcome(job: RunnerCall) -> list[Event] | Exception:
    try:
        return job.work(job)
    except Stopped:
        raise
    except Exception as problem:
        return problem
    except BaseException as problem:
        return ToolFailed(f"the tool ended itself: {described(problem)}")


class Pool:
    """The runners of one definition, the idle ones on a stack."""

    def __init__(self, name: str, limit: int = MAX_THREADS, patience: float = IDLE_SECONDS) -> None:
        self.name = name
        self.patience = patience
        self.limit = limit
        self.idle: list[Runner] = []
        self._lock = threading.Lock()
        self._runners: list[Runner] = []

    def start(self, work: Work) -> RunnerCall:
        """Begin some work on an idle runner or a new one. Raises ToolFailed when all are busy."""
        try:
            runner = self.idle.pop()
        except IndexError:
            runner = self._grow()
        job = runner.job = RunnerCall(work, runner)
        runner.inbox.put(job)
        return job

    def _grow(self) -> Runner:
        with self._lock:
            self._runners = [runner for runner in self._runners if runner.thread.is_alive()]
            if len(self._runners) >= self.limit:
                stuck = f", {self.stuck} of them by calls that were given up and do not stop" if self.stuck else ""
                raise ToolFailed(f"{self.name} is busy: all its {self.limit} threads are taken{stuck}; try again later")
            runner = Runner(self)
            runner.thread.start()
            self._runners.append(runner)
            return runner

    def retire(self, runner: Runner) -> bool:
        """Let an idle runner end; False when work is already on its way to it."""
        try:
            self.idle.remove(runner)
        except ValueError:
            return False
        return True

    @property
    def stuck(self) -> int:
        """How many threads still sit in a call that was given up."""
        jobs = [runner.job for runner in self._runners if runner.thread.is_alive()]
        return sum(job is not None and job.abandoned for job in jobs)

    def run(self, work: Work, call: Call) -> Events:
        """Do some work on a runner: its events as they come. Raises what the work raises."""
        job = self.start(work)
        silence = pauses(call)
        ended = False
        try:
            while not ended:
                try:
                    item = job.out.get(timeout=next(silence))
                except Empty:
                    yield PAUSE
                    continue
                if job.room is not None:
                    job.room.release()
                if isinstance(item, list):
                    ended = True
                    yield from item
                elif isinstance(item, Exception):
                    ended = True
                    raise item
                elif isinstance(item, PendingEvent):
                    item.reply.put((yield item.event))
                else:
                    yield item
        finally:
            if not ended:
                job.runner.abandon(job)
