"""Tasks: calls that continue in the background after their caller has disconnected (2026-07-28, tasks extension).

A call becomes a task when its tool yields Detach and the caller supports tasks: the rest of the activation runs in a
separate thread, its events fold into the result, and its questions stay open until `tasks/update` answers them. The
journal holds the state (`records.py`), so any process can show, answer and cancel a task. One more thread in each
process records signs of life, receives cancellations, and, when the process stops, waits for the tasks during the drain
and fails the rest with a reason. It is not a daemon thread: the interpreter does not exit under a running task.
Source: SEP-2663.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchbay.activation import Call, Cancelled, Events, Stopping
from patchbay.background import run_in_background
from patchbay.catalogue.contents.ledger import Ledger
from patchbay.coordination.process_liveness import BEAT_SECONDS
from patchbay.errors import ContentError, InvalidParams, PatchbayError, TimedOut, ToolFailed
from patchbay.events import Ask, Done, Event, Failed
from patchbay.jsonrpc import failure
from patchbay.protocol.client_requests import fits
from patchbay.protocol.incidents import incident
from patchbay.protocol.tasks.records import QUEUED, Task, TaskStore
from patchbay.store import Store
from patchbay.topics import ACCESS_ENDED, TASK_CHANGES
from patchbay.views.fold import Fold

log = logging.getLogger(__name__)

GONE = "the hub was restarted, or the process that ran this task was lost, before it ended"
STOPPED = "the hub was stopped before this task ended"
TASK_CANCELLED = "the task was cancelled"


@dataclass(frozen=True, slots=True)
class TaskWork:
    """A running call: its events, the fold that collects them, and the function from the fold to the answer."""

    call: Call
    events: Events
    fold: Fold
    answer: Callable[[Fold], dict[str, Any]]


class Tasks:
    """The tasks of one process, and access to all others in the same store. Safe to use from many threads.

    A task may run for `minutes`, and its result lasts for the same time after that; `max_tasks` run at once. `left`
    returns the seconds that the process still has: infinite until it stops. `ledger` counts what they leave.
    """

    def __init__(
        self, store: Store, minutes: float, max_tasks: int, left: Callable[[], float], ledger: Ledger | None = None
    ) -> None:
        self._records = TaskStore(store, ledger)
        self._seconds = minutes * 60
        self._room = threading.BoundedSemaphore(max_tasks)
        self._left = left
        self._lock = threading.Lock()
        self._running: dict[str, Call] = {}
        self._keeper: threading.Thread | None = None

    def start(self, work: TaskWork, endpoint: str) -> Task | None:
        """Make a task of a call; None if too many tasks run, and the call has to continue without one.

        On return, `find` finds the task in every process.
        """
        if self._left() != float("inf") or not self._room.acquire(blocking=False):
            return None
        try:
            self._records.liveness.beat()
            task = self._records.make(work.call.principal, endpoint, 2 * self._seconds)
        except BaseException:
            self._room.release()
            raise
        deadline, work.call.deadline = work.call.deadline, time.monotonic() + self._seconds
        try:
            self._start_threads(task, work)
        except RuntimeError:
            log.warning("a call of %s does not become a task: the system has no thread left", work.call.server)
            work.call.deadline = deadline
            with self._lock:
                self._running.pop(task.id, None)
            self._room.release()
            self._records.end(task, "failed", error=_error(PatchbayError(GONE)), message=GONE)
            return None
        return task

    def queue(self, principal: str, endpoint: str) -> Task:
        """Make a task that no process runs yet; a worker calls `run_here` for it."""
        return self._records.make(principal, endpoint, 2 * self._seconds, QUEUED)

    def read(self, id: str) -> Task | None:
        """Return the task of an id, of any caller; None for an unknown or expired one."""
        return self._records.read(id)

    def fail(self, task: Task, reason: str) -> None:
        """End a task as failed."""
        self._records.end(task, "failed", error=_error(PatchbayError(reason)), message=reason)

    def run_here(self, task: Task, work: TaskWork) -> None:
        """Run a queued task to its end, on this thread; it does not count against the limit of running tasks.

        A task that was cancelled before ends at once.
        """
        if task.cancelling:
            self._records.end(task, "cancelled")
            work.events.close()
            return
        self._records.liveness.beat()
        self._records.append(task, "began", {"owner": self._records.liveness.process})
        work.call.deadline = time.monotonic() + self._seconds
        self._watch_running(task, work)
        self._run(task, work)

    def _start_threads(self, task: Task, work: TaskWork) -> None:
        """Start the thread that runs a task, and the one that watches all. Raises RuntimeError without threads."""
        self._watch_running(task, work)
        run_in_background(f"task {task.id}", self._run_and_release, task, work)

    def _watch_running(self, task: Task, work: TaskWork) -> None:
        """Let the watching thread see a task that runs now. Raises RuntimeError without threads."""
        with self._lock:
            self._running[task.id] = work.call
            if self._keeper is None:
                keeper = threading.Thread(target=self._keep, name="tasks", daemon=False)
                keeper.start()
                self._keeper = keeper

    def find(self, id: Any, principal: str, endpoint: str) -> Task:
        """Return the task of an id. Raises InvalidParams, in the same way for a task of another caller."""
        task = self._records.read(id)
        if task is None or (task.principal, task.endpoint) != (principal, endpoint):
            raise InvalidParams(f"there is no task {id!r:.80} here; it may have expired")
        return self._checked(task)

    def answer(self, task: Task, responses: Mapping[str, Any]) -> None:
        """Record answers to open questions; ignore answers to other questions and answers of a wrong form."""
        taken = {
            key: responses[key]
            for key, question in task.pending.items()
            if key in responses and fits(question["method"], responses[key])
        }
        if taken and task.ended is None:
            self._records.append(task, "answered", taken)

    def cancel(self, task: Task) -> None:
        """Ask a task to stop, which it does at its next event; an ended task does not change."""
        if task.ended is None and not task.cancelling:
            self._records.append(task, "cancel", {})

    def watch(self, tasks: Sequence[Task]) -> TaskWatch:
        """Return the watch of these tasks for a listener."""
        return TaskWatch(tasks, self._caught_up)

    def _caught_up(self, task: Task) -> Task:
        self._records.catch_up(task)
        return self._checked(task)

    def _checked(self, task: Task) -> Task:
        """Return the task; end it first if no process runs it any more."""
        if task.ended is not None or task.is_job or self._at_work(task):
            return task  # the workers decide about a job whose worker died
        self._records.catch_up(task)
        if task.ended is None:
            # The task was to be cancelled, and it does not run: it counts as cancelled.
            if task.cancelling:
                self._records.end(task, "cancelled", message=GONE)
            else:
                self._records.end(task, "failed", error=_error(PatchbayError(GONE)), message=GONE)
            self._records.catch_up(task)
        return task

    def _at_work(self, task: Task) -> bool:
        liveness = self._records.liveness
        return task.id in self._running if task.owner == liveness.process else liveness.is_alive(task.owner)

    def _run_and_release(self, task: Task, work: TaskWork) -> None:
        """Run a task that counts against the limit."""
        try:
            self._run(task, work)
        finally:
            self._room.release()

    def _run(self, task: Task, work: TaskWork) -> None:
        """Run the task to its end, in its thread, and record the end."""
        try:
            status, outcome = self._outcome(task, work)
        except Exception:
            status, outcome = "failed", {"error": _error(incident(log, f"in a task of {work.call.server}"))}
        try:
            work.events.close()
            self._records.end(task, status, **outcome)
        except Exception:
            # The next process that reads the task ends it, because no process runs it any more.
            log.exception("the end of a task of %s could not be stored", work.call.server)
        finally:
            with self._lock:
                self._running.pop(task.id, None)

    def _outcome(self, task: Task, work: TaskWork) -> tuple[str, dict[str, Any]]:
        """Return the final status of the task and its further members."""
        try:
            ending = self._finish(task, work)
        except Cancelled:
            return "cancelled", _say_who_ended(work.call)
        except ToolFailed as problem:
            ending = Failed(problem.message)
            work.fold.add(ending)
        if work.call.cancelled:
            return "cancelled", _say_who_ended(work.call)
        error = ending.error if isinstance(ending, Failed) else None
        if isinstance(error, Stopping):
            return "failed", {"error": _error(PatchbayError(STOPPED)), "message": STOPPED}
        if isinstance(error, PatchbayError) and not isinstance(error, ToolFailed):
            return "failed", {"error": _error(error), "message": error.message}
        return "completed", {"result": work.answer(work.fold)}

    def _finish(self, task: Task, work: TaskWork) -> Done | Failed:
        reply: Mapping[str, Any] | None = None
        used: set[str] = set()
        while True:
            event: Event = work.events.send(reply)
            reply = None
            if isinstance(event, Ask):
                reply = self._ask(task, work.call, {_unused(key, used): key for key in event.questions}, event)
            elif isinstance(event, (Done, Failed)):
                return event

    def _ask(self, task: Task, call: Call, keys: Mapping[str, str], ask: Ask) -> dict[str, Any]:
        """Open questions under new keys of this task, and wait for all answers."""
        questions = {key: ask.questions[own] for key, own in keys.items()}
        with self._records.store.bus.subscribe([task.topic, ACCESS_ENDED]) as mailbox:
            opened = {key: {"method": one.method, "params": one.params} for key, one in questions.items()}
            self._records.append(task, "asked", opened)
            while True:
                self._records.catch_up(task)
                if task.cancelling:
                    call.cancelled.set(TASK_CANCELLED, is_by_caller=True)
                if task.ended is not None or task.cancelling or call.ends_with_credentials():
                    raise Cancelled("cancelled while it waited for an answer")
                if all(key in task.answers for key in questions):
                    return {own: task.answers[key] for key, own in keys.items()}
                if call.left() <= 0:
                    raise TimedOut("timed out waiting for the client's answer")
                mailbox.get(min(BEAT_SECONDS, call.left()))

    def _keep(self) -> None:
        """Watch the tasks of this process, on a thread of its own, until the last one has ended."""
        try:
            with self._records.store.bus.subscribe([TASK_CHANGES + "*", ACCESS_ENDED], 1024) as mailbox:
                beaten = time.monotonic()
                while self._must_continue():
                    got = mailbox.get(min(BEAT_SECONDS, self._left()))
                    closed = self._records.store.check() if got is None else None
                    if closed:
                        raise ContentError(closed)
                    is_of_one = got is not None and got[0] != ACCESS_ENDED
                    ids = [got[0].removeprefix(TASK_CHANGES)] if got and is_of_one else list(self._running)
                    if time.monotonic() - beaten >= BEAT_SECONDS:
                        beaten = time.monotonic()
                        self._records.liveness.beat()
                        # A message about one of them may have been lost.
                        ids = list(self._running)
                    for id in ids:
                        self._heed(id)
        except Exception:
            log.exception("watching the tasks of this process failed; they are ended")
        finally:
            self._give_up()

    def _must_continue(self) -> bool:
        """Whether the watching thread continues: tasks run, and neither the drain nor the interpreter has ended."""
        over = self._left() == 0 or (self._left() == float("inf") and not threading.main_thread().is_alive())
        with self._lock:
            if self._running and not over:
                return True
            if not self._running:
                self._keeper = None
            return False

    def _heed(self, id: str) -> None:
        """Cancel a running task that was cancelled, or that another process ended because this one seemed lost."""
        call = self._running.get(id)
        task = self._records.read(id) if call is not None else None
        if call is not None and call.ends_with_credentials():
            return
        if call is not None and (task is None or task.cancelling or task.ended is not None):
            is_by_caller = task is not None and task.cancelling
            call.cancelled.set(TASK_CANCELLED if is_by_caller else "the task is over", is_by_caller)

    def _give_up(self) -> None:
        """Fail the running tasks with a reason; their threads stop at their next event."""
        with self._lock:
            if self._keeper is not threading.current_thread():
                return
            left, self._running, self._keeper = self._running, {}, None
        for id, call in left.items():
            call.cancelled.set(STOPPED)
            try:
                task = self._records.read(id)
                if task is not None:
                    self._records.end(task, "failed", error=_error(PatchbayError(STOPPED)), message=STOPPED)
            except Exception:
                log.exception("the end of a task of %s could not be stored", call.server)


class TaskWatch:
    """The tasks of one listener."""

    def __init__(self, tasks: Sequence[Task], look: Callable[[Task], Task]) -> None:
        self._tasks = {task.topic: task for task in tasks}
        self._told: dict[str, int] = {}
        self._look = look

    @property
    def topics(self) -> tuple[str, ...]:
        """The bus topics of the tasks."""
        return tuple(self._tasks)

    @property
    def ids(self) -> list[str]:
        """The ids of the tasks."""
        return [task.id for task in self._tasks.values()]

    def news(self, topic: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the tasks that changed since the last call, one task or all; at first, all of them."""
        for task in self._tasks.values() if topic is None else [self._tasks[topic]]:
            if self._told.get(task.id) is None or task.ended is None:
                self._look(task)
            if self._told.get(task.id) != task.seq:
                self._told[task.id] = task.seq
                yield task.detailed()


def _unused(key: str, used: set[str]) -> str:
    """Return a key that this task has not used on the wire: the author's own key if possible."""
    chosen, number = key, 1
    while chosen in used:
        number += 1
        chosen = f"{key}-{number}"
    used.add(chosen)
    return chosen


def _say_who_ended(call: Call) -> dict[str, Any]:
    """Return the message of a task that the hub ended; nothing for one that its caller cancelled."""
    return {"message": call.cancelled.describe()} if call.cancelled.by_hub else {}


def _error(problem: PatchbayError) -> dict[str, Any]:
    return dict(failure(None, problem).error)
