"""The calls of one run: those that a script asked for, those that run, and their results.

A call begins when the script waits for it, together with all others that it asked for by then. So what the script never
awaits never runs.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from patchbay.activation import FIRST_PAUSE_SECONDS, PAUSE, Call, Events, pauses
from patchbay.background import run_in_background
from patchbay.errors import PatchbayError
from patchbay.events import Event, Pause, Progress
from patchbay.scripting.limits import Budget, LimitReached
from patchbay.scripting.modules import ScriptTool
from patchbay.scripting.stubs.functions import is_wrapped
from patchbay.scripting.values import size_of, text_of, value_of

MAX_SLEEP_SECONDS = 3600.0


class InnerCall(Protocol):
    """One call of a tool for a script: its events, and afterwards its result."""

    result: Mapping[str, Any]

    def events(self) -> Events: ...


BeginCall = Callable[[ScriptTool, dict[str, Any]], InnerCall]
"""Prepares the call of a tool; its first event begins it. Raises ToolFailed."""


@dataclass
class PlannedCall:
    """A call that a script asked for: `name` is `module.function`, `line` the line of the script."""

    name: str
    line: int
    tool: ScriptTool
    arguments: dict[str, Any]
    """What the tool gets; empty again after the call, so that the memory of the hub does not keep it."""

    ms: float = 0.0
    has_failed: bool = False
    answer: dict[str, Any] | None = None
    """What the interpreter gets: a value, or an exception."""

    limit: LimitReached | None = None
    """The limit of the run that this call reached."""

    def row(self) -> dict[str, Any]:
        """Return the call as the result of the run shows it."""
        row = {"tool": self.name, "line": self.line, "ms": round(self.ms, 1)}
        return {**row, "failed": True} if self.has_failed else row


@dataclass
class ScriptCalls:
    """The calls and the sleeps of one run. `begin` prepares a call, `call` is that of the run itself."""

    call: Call
    budget: Budget
    begin: BeginCall
    made: list[PlannedCall] = field(default_factory=list)
    """All calls that began, in the order in which the script asked for them."""

    _planned: dict[int, PlannedCall] = field(default_factory=dict)
    _running: dict[int, PlannedCall] = field(default_factory=dict)
    _sleeps: dict[int, float] = field(default_factory=dict)
    _ended: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)
    _done: int = 0

    def plan(self, id: int, planned: PlannedCall) -> None:
        """Note a call that begins when the script waits. Raises LimitReached."""
        self.budget.take_call()
        self._planned[id] = planned

    def plan_sleep(self, id: int, seconds: float) -> None:
        """Note a sleep, which begins now."""
        self._sleeps[id] = time.monotonic() + min(max(seconds, 0.0), MAX_SLEEP_SECONDS)

    def settle(self) -> Iterator[Event]:
        """Begin the planned calls, and wait until one call or sleep is over: `take_answers` has it then.

        Raises LimitReached.
        """
        if len(self._planned) == 1 and not self._running and not self._sleeps:
            ((id, planned),) = self._planned.items()
            self._planned.clear()
            self.made.append(planned)
            self._running[id] = planned
            yield from self._run_here(planned)
            self._ended.put(id)
            self.budget.check_time()
        for seconds in pauses(self.call):
            self._start_planned()
            if self._wait(seconds):
                break
            self.budget.check_time()
            yield PAUSE
        self._done = len(self.made) - len(self._running)
        total = len(self.made) + len(self._planned)
        yield Progress(self._done, total, f"{self._done} calls done, {len(self._running)} running")

    def take_answers(self) -> dict[int, dict[str, Any]]:
        """Return the answers that are there now, by the id of their calls. Raises LimitReached."""
        found: dict[int, dict[str, Any]] = {}
        while not self._ended.empty():
            planned = self._running.pop(id := self._ended.get())
            if planned.limit is not None:
                raise LimitReached(f"line {planned.line}: {planned.limit.message}")
            assert planned.answer is not None
            found[id] = planned.answer
            planned.answer = None
        now = time.monotonic()
        for id in [one for one, until in self._sleeps.items() if until <= now]:
            del self._sleeps[id]
            found[id] = {"return_value": None}
        return found

    def _wait(self, seconds: float) -> bool:
        """Wait until a call or a sleep is over; return whether one is."""
        next_sleep = min(self._sleeps.values(), default=float("inf")) - time.monotonic()
        seconds = max(0.0, min(seconds, next_sleep, self.budget.until - time.monotonic()))
        try:
            self._ended.put(self._ended.get(timeout=seconds or 0.001))
        except queue.Empty:
            return next_sleep <= seconds
        return True

    def _start_planned(self) -> None:
        while self._planned and len(self._running) < self.budget.limits.parallel:
            id = min(self._planned)
            planned = self._running[id] = self._planned.pop(id)
            self.made.append(planned)
            run_in_background("call of a script", self._run_apart, id, planned)

    def _run_apart(self, id: int, planned: PlannedCall) -> None:
        """Run a call on this thread, without its pauses."""
        try:
            for _ in self._run_here(planned):
                pass
        finally:
            self._ended.put(id)

    def _run_here(self, planned: PlannedCall) -> Iterator[Event]:
        """Run a call, and yield a Pause for each of its own, and now and then. Its answer is in `planned` then."""
        begun = paused = time.monotonic()
        try:
            inner = self.begin(planned.tool, planned.arguments)
            for event in inner.events():
                # The events of the call are not those of the script, whose caller has to be looked after all the same.
                if isinstance(event, Pause) or time.monotonic() - paused >= FIRST_PAUSE_SECONDS:
                    paused = time.monotonic()
                    yield PAUSE
            self._answer(planned, inner.result)
        except LimitReached as problem:
            planned.limit = problem
        except PatchbayError as problem:
            self._fail(planned, problem.message)
        except Exception:
            self._fail(planned, "the hub failed while it made this call")
            raise
        finally:
            planned.ms = (time.monotonic() - begun) * 1000
            planned.arguments = {}

    def _answer(self, planned: PlannedCall, result: Mapping[str, Any]) -> None:
        if result.get("isError"):
            self._fail(planned, text_of(result))
            return
        value = value_of(result, is_wrapped(planned.tool.descriptor.wire.get("outputSchema")))
        self.budget.take_bytes(size_of(value))
        planned.answer = {"return_value": value}

    def _fail(self, planned: PlannedCall, message: str) -> None:
        planned.has_failed = True
        try:
            self.budget.take_bytes(size_of(message))
        except LimitReached as problem:
            planned.limit = problem
        else:
            planned.answer = {"exc_type": "RuntimeError", "message": f"{planned.name}: {message}"}
