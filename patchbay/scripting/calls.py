"""The calls of one run: those that a script asked for, that run, and that wait for an approval, and their results.

A call begins when the script waits for it, together with all others that it asked for by then. So what the script never
awaits never runs. A call that needs an approval does not begin, and one whose tool asks a question ends with it: when
nothing else goes on, the run is suspended (`runs.py`), and all such calls are asked about at the same time.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from patchbay.access.approvals import AskedCall, CallDigest
from patchbay.activation import FIRST_PAUSE_SECONDS, PAUSE, Call, Events, pauses
from patchbay.background import run_in_background
from patchbay.errors import PatchbayError, ToolFailed
from patchbay.events import Event, Pause, Progress, Question
from patchbay.jsonrpc import load_json
from patchbay.scripting.limits import Budget
from patchbay.scripting.modules import ScriptTool
from patchbay.scripting.stubs.functions import is_wrapped
from patchbay.scripting.suspended.suspended_runs import Claim, LostClaim
from patchbay.scripting.suspended.suspension import CannotGoOn, digest_of_call
from patchbay.scripting.values import size_of, text_of, value_of

MAX_SLEEP_SECONDS = 3600.0

NOT_RUN = "did not run"
APPROVAL_REFUSED = "its approval was refused"
"""What the failure of a call says that a person refused: a repeated run says the same."""

MAX_QUESTION_ROUNDS = 10
"""How often one call may end with questions of its tool."""


class InnerCall(Protocol):
    """One call of a tool for a script: its events, and afterwards its result.

    `line`, `number` and `written` are for its record: the line of the script, its number among the calls of the run,
    and its arguments as the script wrote them where they are others; None where they are the same. A question of the
    tool that has no answer in `answers` (by its digest) ends the call, and `asked` has it then.
    """

    result: Mapping[str, Any]
    answers: Mapping[str, Sequence[Any]]
    asked: Mapping[str, Question]
    account: tuple[str, str] | None
    line: int
    number: int
    written: dict[str, Any] | None

    def find_question(self) -> AskedCall | None:
        """Return the exact call if it needs an approval that it does not have; None if it may run, or is refused."""
        ...

    def events(self) -> Events: ...


BeginCall = Callable[[ScriptTool, dict[str, Any], str], InnerCall]
"""Prepares the call of a tool, with the id of its approval, "" without one; its first event begins it.

Raises ToolFailed.
"""

TakeApproval = Callable[[CallDigest], str]
"""Takes an approval that the rehearsal of the script got for a call; returns its id, "" if there is none."""


@dataclass
class PlannedCall:
    """A call that a script asked for: `name` is `module.function`, `line` the line of the script."""

    name: str
    line: int
    tool: ScriptTool
    arguments: dict[str, Any]
    """What the tool gets; empty again after the call, so that the memory of the hub does not keep it."""

    number: int = 0
    """Its place among the calls of the run, from 1 on, in the order in which they begin.

    A call whose tool asked has another one when it is made again.
    """

    ms: float = 0.0
    has_failed: bool = False
    answer: dict[str, Any] | None = None
    """What the interpreter gets: a value, or an exception."""

    end: CannotGoOn | None = None
    """The limit of the run that this call reached."""

    approval: str = ""
    """The id of the approval that the call has."""

    question: AskedCall | None = None
    """The exact call, while it waits for an approval."""

    asked: Mapping[str, Question] = field(default_factory=dict)
    """The questions of its tool, while it waits for the answers."""

    account: tuple[str, str] | None = None
    """The account that its caller has to connect first, as in `patchbay.events.Ask`."""

    answers: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The answers to earlier questions of its tool, as in `WaitingCall`."""

    rounds: int = 0
    """How often its tool has asked."""

    is_refused: bool = False

    written: dict[str, Any] | None = None
    """The arguments as the script wrote them, where `arguments` has the contents of links in them; for the record."""

    @property
    def waits(self) -> bool:
        """Whether the call goes on only after a person has decided or answered."""
        return self.question is not None or bool(self.asked)

    def exact_row(self) -> dict[str, Any]:
        """Return a call that is not made as the result of a rehearsal shows it: its tool, its digest, its arguments."""
        tool = self.tool
        named = {"tool": self.name, "line": self.line, "digest": tool.descriptor.digest}
        return {**named, "name": tool.title, "arguments": self.arguments}

    def row(self) -> dict[str, Any]:
        """Return the call as the result of the run shows it."""
        row = {"tool": self.name, "line": self.line, "ms": round(self.ms, 1)}
        row |= {"failed": True} if self.has_failed else {}
        return row | ({"refused": True} if self.is_refused else {})


class RehearsalEnded(Exception):
    """A rehearsed script waits for the result of a call that is not made."""


@dataclass
class ScriptCalls:
    """The calls and the sleeps of one run. `begin` prepares a call, `call` is that of the run itself.

    With `may_wait`, calls that need an approval or an answer go to `waiting`. `claim` is that of a run that was
    suspended before, and `last_number` the highest number of the calls that it has made. With `rehearses`, calls of
    tools that may change something are collected in `held`, and never made. With `take_approval`, a call uses an
    approval of the rehearsal of this script.
    """

    call: Call
    budget: Budget
    begin: BeginCall
    may_wait: bool = False
    claim: Claim | None = None
    waiting: dict[int, PlannedCall] = field(default_factory=dict)
    """The calls that wait for a person, by the ids of the interpreter."""

    last_number: int = 0
    """The highest number of a call that was made and is over, also of one whose tool asked."""

    rehearses: bool = False
    take_approval: TakeApproval | None = None
    held: list[PlannedCall] = field(default_factory=list)
    made: list[PlannedCall] = field(default_factory=list)
    """All calls that began, in the order in which the script asked for them."""

    _planned: dict[int, PlannedCall] = field(default_factory=dict)
    _running: dict[int, PlannedCall] = field(default_factory=dict)
    _sleeps: dict[int, float] = field(default_factory=dict)
    _ended: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)
    _done: int = 0

    def plan(self, id: int, planned: PlannedCall) -> None:
        """Note a call that begins when the script waits. Raises CannotGoOn."""
        self.budget.take_call()
        if self.rehearses and not planned.tool.only_reads:
            self.held.append(planned)
        else:
            self._planned[id] = planned

    def plan_approved(self, id: int, planned: PlannedCall) -> None:
        """Note a call of a suspended run, which counted for the budget when the script asked for it."""
        planned.account = None  # it is there now
        self._planned[id] = planned

    def fail_waiting(self, id: int, planned: PlannedCall, reason: str, is_refused: bool = False) -> None:
        """Let a call that waited fail without being made; `take_answers` has it. A person may have refused it."""
        # A tool that asked a question has run up to it; a call that lacks an account was not made.
        has_run = planned.rounds > 0 and planned.account is None
        what = "asked a question, and did not go on" if has_run else NOT_RUN
        planned.is_refused, planned.has_failed = is_refused, True
        planned.question, planned.asked, planned.arguments, planned.written = None, {}, {}, None
        planned.answer = _failure(f"{planned.name}: {what}: {reason}")
        self.made.append(planned)
        self._running[id] = planned
        self._ended.put(id)

    @property
    def only_wait(self) -> bool:
        """Whether nothing goes on without a decision about the waiting calls, or an answer to them."""
        return bool(self.waiting) and not (self._planned or self._running or self._sleeps)

    def plan_sleep(self, id: int, seconds: float) -> None:
        """Note a sleep, which begins now."""
        self._sleeps[id] = time.monotonic() + min(max(seconds, 0.0), MAX_SLEEP_SECONDS)

    def settle(self) -> Iterator[Event]:
        """Begin the planned calls, and wait until one call or sleep is over: `take_answers` has it then.

        Raises CannotGoOn, and RehearsalEnded when only calls that are not made could give the script something.
        """
        if self.rehearses and not (self._planned or self._running or self._sleeps or not self._ended.empty()):
            raise RehearsalEnded
        if len(self._planned) == 1 and not self._running and not self._sleeps:
            ((id, planned),) = self._planned.items()
            self._planned.clear()
            self._note_begun(planned)
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
        """Return the answers that are there now, by the id of their calls. Raises CannotGoOn."""
        found: dict[int, dict[str, Any]] = {}
        while not self._ended.empty():
            planned = self._running.pop(id := self._ended.get())
            if isinstance(planned.end, LostClaim):
                raise planned.end
            if planned.end is not None:
                raise CannotGoOn(f"line {planned.line}: {planned.end.message}")
            if planned.question is None:  # it was made
                self.last_number = max(self.last_number, planned.number)
            if planned.waits:
                self.made.remove(planned)
                self.waiting[id] = planned
                continue
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

    def _note_begun(self, planned: PlannedCall) -> None:
        self.made.append(planned)
        planned.number = max([self.last_number, *(one.number for one in self._running.values())]) + 1

    def _start_planned(self) -> None:
        while self._planned and len(self._running) < self.budget.limits.parallel:
            id = min(self._planned)
            planned = self._running[id] = self._planned.pop(id)
            self._note_begun(planned)
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
        begun = time.monotonic()
        try:
            yield from self._make(planned)
        except CannotGoOn as problem:
            planned.end = problem
        except PatchbayError as problem:
            self._fail(planned, problem.message)
        except Exception:
            self._fail(planned, "the hub failed while it made this call")
            raise
        finally:
            planned.ms = (time.monotonic() - begun) * 1000
            if not planned.waits:
                planned.arguments, planned.written = {}, None

    def _make(self, planned: PlannedCall) -> Iterator[Event]:
        """Make a call, unless it has to wait for an approval, or a process that has ended made it.

        Raises PatchbayError.
        """
        paused = time.monotonic()
        inner = self.begin(planned.tool, planned.arguments, planned.approval)
        if not planned.approval and (self.may_wait or self.take_approval is not None):
            question = inner.find_question()
            if question is not None and self.take_approval is not None:
                planned.approval = self.take_approval(question.exact)
            if planned.approval:
                inner = self.begin(planned.tool, planned.arguments, planned.approval)
            elif question is not None and self.may_wait:
                planned.question = question
                # With the contents of links: the call that goes on is the one that people decided about.
                exact = load_json(question.arguments)
                if exact != planned.arguments:
                    planned.written, planned.arguments = planned.arguments, exact
                return
        inner.line, inner.number, inner.written = planned.line, planned.number, planned.written
        inner.answers = planned.answers
        digest = ""  # needed, and made, only where each call is noted
        if self.claim is not None:
            digest = digest_of_call(planned.tool.server, planned.tool.descriptor.name, planned.arguments)
            known = self.claim.begin_call(digest)
            if known is not None:
                planned.answer, planned.has_failed = known, "exc_type" in known
                return
        try:
            for event in inner.events():
                # The events of the call are not those of the script, whose caller has to be looked after all the same.
                if isinstance(event, Pause) or time.monotonic() - paused >= FIRST_PAUSE_SECONDS:
                    paused = time.monotonic()
                    yield PAUSE
            if self.may_wait and inner.asked:
                self._note_asked(planned, inner)
            else:
                self._answer(planned, inner.result)
        except CannotGoOn:
            raise
        except PatchbayError as problem:
            self._fail(planned, problem.message)
        if self.claim is not None and planned.answer is not None:
            if self.call.hub is not None and self.call.hub.over():
                raise LostClaim("the hub is stopping, and cancelled a call: another process goes on with this run")
            self.claim.end_call(digest, planned.answer)

    def _note_asked(self, planned: PlannedCall, inner: InnerCall) -> None:
        """Note that a call ended with questions. Raises ToolFailed for a tool that does not stop asking."""
        if planned.rounds >= MAX_QUESTION_ROUNDS:
            raise ToolFailed(f"it asked {MAX_QUESTION_ROUNDS} times for more input")
        planned.asked, planned.account = inner.asked, inner.account
        planned.rounds += 1

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
        except CannotGoOn as problem:
            planned.end = problem
        else:
            planned.answer = _failure(f"{planned.name}: {message}")


def _failure(message: str) -> dict[str, Any]:
    """Return an answer that raises an exception in the script."""
    return {"exc_type": "RuntimeError", "message": message}
