"""Runner threads: a Python tool runs on one, while the calling thread waits with a deadline.

A fast call costs two hand-offs over `SimpleQueue`s. When a call is abandoned (deadline, cancellation, disconnected
caller), `Stopped` is raised in its Python code and its thread ends; only a thread that finished its call normally
returns to the pool. A thread that is stuck in C code cannot be stopped: it counts against the pool's limit until it
returns. Each definition has its own pool, so that one that hangs blocks no other.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from queue import Empty, SimpleQueue
from typing import Any

from patchbay.activation import PAUSE, Call, Events, ended_itself, pauses, slices
from patchbay.errors import ToolFailed
from patchbay.events import Ask, Detach, Event, Question
from patchbay.threads.interrupts import Stopped, raise_in, when_lost

MAX_THREADS = 512
"""Maximum threads of one pool."""

MAX_PENDING_EVENTS = 256
"""Maximum events of one call that are not yet taken; at this number the tool waits."""

IDLE_SECONDS = 60.0
"""Seconds after which an idle runner ends."""

RECHECK_SECONDS = 1.0
"""Seconds between two checks of a blocked tool whether its call has ended."""

CLEANUP_SECONDS = 1.0
"""Seconds that an ending process waits for the cleanup of an abandoned tool."""


class PendingEvent:
    """An event on its way to the caller, with the queue for its answer."""

    __slots__ = ("event", "reply")

    def __init__(self, event: Ask | Detach) -> None:
        self.event = event
        self.reply: SimpleQueue[Any] = SimpleQueue()


Work = Callable[["RunnerCall"], list[Event]]


class RunnerCall:
    """One call on a runner. `out` carries events, then one list (the last events) or one exception.

    `stopping` is true when the tool is known to end: no further interrupt may disturb its cleanup.
    """

    __slots__ = ("abandoned", "loop", "out", "room", "runner", "stopping", "work")

    def __init__(self, work: Work, runner: Runner) -> None:
        self.work = work
        self.runner = runner
        self.out: SimpleQueue[Event | PendingEvent | list[Event] | Exception] = SimpleQueue()
        self.room: threading.Semaphore | None = None
        self.loop: AbstractEventLoop | None = None
        self.abandoned = False
        self.stopping = False

    def emit(self, event: Event | PendingEvent) -> None:
        """Emit an event; waits while too many are pending. Raises Stopped when the call has ended.

        For a Detach it waits for the answer: later events may depend on the time that it grants, or be refused.
        """
        if isinstance(event, Detach):
            self._wait_for_answer(event)
            return
        if self.room is None:
            self.room = threading.Semaphore(MAX_PENDING_EVENTS)
        while not self.room.acquire(timeout=RECHECK_SECONDS):
            self._check_abandoned()
        self._check_abandoned()
        self.out.put(event)

    def ask(self, questions: Mapping[str, Question]) -> Any:
        """Send questions and wait for the answer: a map of results, or None. Raises Stopped."""
        return self._wait_for_answer(Ask(questions))

    def _wait_for_answer(self, event: Ask | Detach) -> Any:
        pending = PendingEvent(event)
        self.emit(pending)
        while True:
            try:
                return pending.reply.get(timeout=RECHECK_SECONDS)
            except Empty:
                self._check_abandoned()

    def _check_abandoned(self) -> None:
        if self.abandoned:
            self.stopping = True
            raise Stopped


def _next_item(job: RunnerCall, call: Call, seconds: float) -> Event | PendingEvent | list[Event] | Exception | None:
    """Return what a job gives next; None when nothing comes in time, or the call is cancelled."""
    for wait in slices(call, seconds):
        with suppress(Empty):
            return job.out.get(timeout=wait)
    return None


class Runner:
    """One thread of a pool. `lock` guards `job`: only a thread that still runs its job may be stopped."""

    __slots__ = ("inbox", "job", "lock", "pool", "thread")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.inbox: SimpleQueue[RunnerCall] = SimpleQueue()
        self.lock = threading.Lock()
        self.job: RunnerCall | None = None
        self.thread = threading.Thread(target=self._run_jobs, name=f"runner of {pool.name}", daemon=True)

    def _run_jobs(self) -> None:
        going = True
        when_lost(self._stop_again)
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
        # Idle first: a caller that reads the result and calls again at once finds this runner.
        self.pool.idle.append(self)
        job.out.put(result)
        return True

    def abandon(self, job: RunnerCall) -> None:
        """Abandon a job: stop its Python code and wake its event loop. Does nothing when it has ended."""
        with self.lock:
            if self.job is not job:
                return
            # First the interrupt: a tool that read `abandoned` before would end by itself, and meet it in its cleanup.
            raise_in(self.thread.ident or 0, Stopped)
            job.abandoned = True
        if job.loop is not None:
            with suppress(RuntimeError):  # the loop was closed in the meantime
                job.loop.call_soon_threadsafe(_do_nothing)

        with suppress(RuntimeError):  # no more threads can start, because the interpreter ends
            threading.Thread(
                target=self.thread.join, args=(CLEANUP_SECONDS,), name="end of a tool", daemon=False
            ).start()

    def _stop_again(self) -> None:
        """Interrupt the job again after a finalizer has dropped the interrupt, unless it ends already."""
        with self.lock:
            if self.job is not None and self.job.abandoned and not self.job.stopping:
                raise_in(self.thread.ident or 0, Stopped)


def _do_nothing() -> None:
    """Do nothing; scheduled to wake an event loop, so that its thread notices that it must stop."""


def _outcome(job: RunnerCall) -> list[Event] | Exception:
    try:
        return job.work(job)
    except Stopped:
        raise
    except Exception as problem:
        return problem
    except BaseException as problem:
        return ended_itself(problem)


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
        """Start work on an idle runner or a new one. Raises ToolFailed when all are busy."""
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
                stuck = f", {self.stuck} of them by abandoned calls that do not stop" if self.stuck else ""
                raise ToolFailed(
                    f"{self.name} is busy: all its {self.limit} threads are in use{stuck}; try again later"
                )
            runner = Runner(self)
            runner.thread.start()
            self._runners.append(runner)
            return runner

    def retire(self, runner: Runner) -> bool:
        """Remove an idle runner; False when work is already on its way to it."""
        try:
            self.idle.remove(runner)
        except ValueError:
            return False
        return True

    @property
    def stuck(self) -> int:
        """The number of threads that are still in an abandoned call."""
        jobs = [runner.job for runner in self._runners if runner.thread.is_alive()]
        return sum(job is not None and job.abandoned for job in jobs)

    def run(self, work: Work, call: Call) -> Events:
        """Run work on a runner and yield its events. Raises the errors of the work."""
        job = self.start(work)
        silence = pauses(call)
        ended = False
        try:
            while not ended:
                item = _next_item(job, call, next(silence))
                if item is None:
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
