"""One run of a script: the interpreter works until it needs something, gets it, and works on.

The types are checked before anything runs. What a script asks for is a call (`calls.py`), a sleep, or a module of
tools; the interpreter has nothing else from this machine. When nothing but a person lets the script go on, the run is
suspended: its interpreter is free, and what it needs is stored (`suspended_runs.py`).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_monty import (
    ExternalModule,
    FunctionSnapshot,
    FutureSnapshot,
    MontyComplete,
    MontyError,
    MontySession,
    NameLookupSnapshot,
    __version__,
)

from patchbay.access.approvals import APPROVED, EXPIRED, REFUSED, Approvals, AskedCall
from patchbay.access.principals import LOCAL
from patchbay.activation import PAUSE, Call, CancelFlag, Events, slices
from patchbay.descriptors import Descriptor
from patchbay.errors import PatchbayError, ToolFailed
from patchbay.events import Event
from patchbay.scripting.calls import APPROVAL_REFUSED, InnerCall, PlannedCall, RehearsalEnded, ScriptCalls, TakeApproval
from patchbay.scripting.failures import SCRIPT, describe_failure, describe_time, is_harmless, place_after
from patchbay.scripting.following import outcome_events, with_calls
from patchbay.scripting.interpreters import Interpreter
from patchbay.scripting.limits import MIB, Budget, ValueBytes
from patchbay.scripting.modules import (
    ScriptModule,
    ScriptModules,
    ScriptTool,
    find_function,
    plain_arguments,
    words_of,
)
from patchbay.scripting.rehearsals import HeldCall, Rehearsal
from patchbay.scripting.stubs.names import identifier
from patchbay.scripting.suspended.run_records import Outcome, RunHead
from patchbay.scripting.suspended.suspended_runs import Claim, LostClaim, SuspendedRuns
from patchbay.scripting.suspended.suspension import CannotGoOn, Suspension, WaitingCall
from patchbay.scripting.suspended.tool_questions import Answers, add_answers, capabilities_of_run, find_capabilities
from patchbay.scripting.values import plain_value

CHANGED = "it has changed since the script began: find the tools again, and run it again"

DECLINED = "you did not connect your account"

SECRET_BYTES = 16
"""Bytes of the secret in the keys of the questions of one suspended run."""

Snapshot = FunctionSnapshot | FutureSnapshot | NameLookupSnapshot | MontyComplete
"""What the interpreter asks for, or its result."""


class _Output:
    """What a script prints. More than `limit` bytes end it, by `end`: the interpreter goes on while it prints."""

    def __init__(self, limit: int, end: Callable[[], None], printed: str = "") -> None:
        self.is_over = False
        self._pieces = [printed]
        self.left = limit
        self._end = end

    def __call__(self, stream: str, text: str) -> None:
        self.left -= len(text.encode("utf-8", "replace"))
        if self.left >= 0:
            self._pieces.append(text)
        elif not self.is_over:
            self.is_over = True
            self._end()

    @property
    def text(self) -> str:
        """The text up to the piece that was too much."""
        return "".join(self._pieces)


@dataclass(frozen=True, slots=True)
class Durable:
    """What lets a run wait for a person without a process: where it is stored, and its head before it is suspended."""

    runs: SuspendedRuns
    head: RunHead


@dataclass(frozen=True, slots=True)
class Resumed:
    """A suspended run that this process goes on with. `answers` are those to the questions of its tools."""

    claim: Claim
    suspension: Suspension
    snapshot: bytes
    answers: Answers


class ScriptRun:
    """One run of one script, on one thread. `durable` is None for a run that cannot be suspended.

    `take_approval` takes the approvals that a rehearsal of the script got; None for a run that uses none, and for a
    rehearsal that asks for none.
    """

    def __init__(
        self,
        interpreter: Interpreter,
        modules: ScriptModules,
        call: Call,
        budget: Budget,
        durable: Durable | None = None,
        resumed: Resumed | None = None,
        take_approval: TakeApproval | None = None,
    ) -> None:
        self.is_whole = False
        """Whether the interpreter may run another script."""
        self.suspended: RunHead | None = None
        """The head of the run, once it is suspended."""
        self.outcome: Outcome | None = None
        """How the run ended."""
        self.rehearsal: Rehearsal | None = None
        """What a rehearsal found, once it has ended without a failure."""
        self._interpreter = interpreter
        self._modules = modules
        self._call = call
        self._budget = budget
        self._durable = durable
        self._resumed = resumed
        before = resumed.suspension if resumed is not None else None
        self._code: str = before.code if before is not None else call.arguments["code"]
        self._inputs: dict[str, Any] = before.inputs if before is not None else call.arguments.get("inputs", {})
        self._lines = self._code.encode("utf-8", "replace")
        self._words = words_of(self._code)
        self._earlier = list(before.calls) if before is not None else []
        output_bytes = before.left.output_bytes if before is not None else budget.limits.output_bytes
        self._output = _Output(output_bytes, interpreter.kill, before.printed if before is not None else "")
        self._flag = CancelFlag()
        self._flags: list[CancelFlag] = []
        """Those of calls that may end before the others, with a question."""
        self._capabilities: Mapping[str, Any] = {}
        self._asks_on_page = False
        if durable is not None:
            declared = find_capabilities(call.capabilities)
            self._asks_on_page = before.asks_on_page if before is not None else not declared
            self._capabilities = before.capabilities if before is not None else capabilities_of_run(call)
        claim = resumed.claim if resumed is not None else None
        self._calls = ScriptCalls(
            *(call, budget, self._begin, durable is not None, claim),
            last_number=before.last_number if before is not None else 0,
            rehearses=call.arguments.get("rehearse") is True,
            take_approval=take_approval,
        )
        self._line = before.line if before is not None else 0

    def events(self) -> Events:
        """Yield the events of the run; the last ones are its output and its value.

        One that is suspended, and a rehearsal, have none of these: `suspended` and `rehearsal` say what follows.

        Raises ToolFailed with the reason and the line, LostClaim.
        """
        check_inputs(self._inputs)
        value, failure, has_value = None, "", True
        try:
            value = yield from self._drive()
        except LostClaim:
            raise
        except RehearsalEnded:
            has_value = False
        except MontyError as problem:
            self.is_whole = is_harmless(problem)
            failure = with_calls(self._explain(problem), self._rows())
        except CannotGoOn as problem:
            place = "" if problem.message.startswith("line ") else f"line {self._line}: " if self._line else ""
            failure = with_calls(f"{place}{problem.message}", self._rows())
        finally:
            # What still runs is of no more use: the script has ended without it.
            # That of the run is first: `_new_flag` looks at it after it has added its own.
            self._flag.set("the script ended")
            for one in list(self._flags):
                one.set("the script ended")
        if self.suspended is not None:
            return
        if not failure:
            try:
                value = plain_value(value, ValueBytes(self._budget.limits.value_bytes).take)
            except ToolFailed as problem:
                failure = with_calls(f"the value of the script cannot be returned: {problem.message}", self._rows())
        self.outcome = Outcome(self._output.text, None if failure else value, self._rows(), failure)
        if self._calls.rehearses and not failure:
            asks = self._calls.take_approval is not None
            held = [HeldCall(one, self._find_question(one) if asks else None) for one in self._calls.held]
            self.rehearsal = Rehearsal(self.outcome, has_value, held)
        else:
            yield from outcome_events(self.outcome, self._call.run)

    def _find_question(self, held: PlannedCall) -> AskedCall | None:
        """Return the exact call if a call that was not made needs an approval."""
        try:
            return self._begin(held.tool, held.arguments, "").find_question()
        except PatchbayError:
            return None  # its arguments are wrong, so that it never runs

    def _rows(self) -> list[dict[str, Any]]:
        """Return the calls of the whole run, as its result shows them."""
        return [*self._earlier, *(one.row() for one in self._calls.made)]

    def _explain(self, problem: MontyError) -> str:
        limits = self._budget.limits
        if self._output.is_over:
            sentence = f"the script prints more than {limits.output_bytes} bytes (limit output_bytes)"
            return f"{place_after(self._line)}: {sentence}"
        if self._interpreter.reached:
            return f"{place_after(self._line)}: {describe_time(self._interpreter.reached, limits)}"
        return describe_failure(problem, limits, self._line)

    def _drive(self) -> Generator[Event, None, Any]:
        """Let the interpreter work until it has a value; return that, or None for a run that is suspended now.

        Raises MontyError, CannotGoOn.
        """
        with self._checkout() as session:
            self._interpreter.begin(session.worker_pid)
            snapshot: Snapshot | None = self._work(lambda: self._start(session))
            if self._resumed is not None:
                self._plan_decided(self._resumed)
            while snapshot is not None and not isinstance(snapshot, MontyComplete):
                self._budget.check_time()
                self._budget.take_suspension()
                if isinstance(snapshot, FutureSnapshot):
                    snapshot = yield from self._settle(snapshot)
                elif isinstance(snapshot, FunctionSnapshot):
                    snapshot = yield from self._serve(snapshot)
                else:
                    snapshot = self._work(snapshot.resume_auto)
            value = snapshot.output if snapshot is not None else None
        self.is_whole = True
        return value

    def _start(self, session: MontySession) -> Snapshot:
        if self._resumed is not None:
            return session.load_snapshot(self._resumed.snapshot, print_callback=self._output)
        return session.feed_start(self._code, inputs=dict(self._inputs), print_callback=self._output)

    def _checkout(self) -> MontySession:
        limits = self._budget.limits
        declared = "".join(f"{name}: Any\n" for name in self._inputs)
        return self._interpreter.monty.checkout(
            script_name=SCRIPT,
            type_check=True,
            type_check_format="concise",
            type_check_stubs=f"from typing import Any\n{declared}",
            os_policy={"sleep": "call_host"},
            external_modules=self._external_modules(),
            limits={
                # The watch of the pool counts the work; this ends a script that it could not end.
                "max_feed_duration_secs": max(0.001, self._budget.until - time.monotonic()),
                "max_memory": limits.memory_mib * MIB,
                "max_suspensions": limits.suspensions,
            },
        )

    def _external_modules(self) -> dict[str, Callable[[], ExternalModule]]:
        seen = [(one, one.seen_by(self._words)) for one in self._used_modules()]
        return {one.name: partial(_external_module, names, one) for one, names in seen}

    def _used_modules(self) -> Sequence[ScriptModule]:
        return [one for name, one in self._modules.modules.items() if name in self._words]

    def _digests(self) -> dict[str, str]:
        """Return the digests of the tools that the types of the script were checked with, by `module.function`."""
        return {
            f"{module.name}.{name}": module.tools[name].descriptor.digest
            for module in self._used_modules()
            for name in module.seen_by(self._words)
        }

    def _has_changed(self, name: str, tool: ScriptTool) -> bool:
        """Whether a tool is not the one that a suspended run began with."""
        return self._resumed is not None and self._resumed.suspension.tools.get(name) != tool.descriptor.digest

    def _work(self, function: Callable[[], Snapshot]) -> Snapshot:
        """Let the interpreter work; return what it asks for. Counts the time."""
        try:
            return self._interpreter.work(function, self._budget.seconds_left, self._budget.until)
        finally:
            self._budget.take_seconds(self._interpreter.spent)

    def _serve(self, snapshot: FunctionSnapshot) -> Generator[Event, None, Snapshot]:
        """Answer what a script calls: a tool, a sleep, or the import of a module."""
        if not snapshot.is_os_function:
            return self._plan(snapshot)
        if snapshot.function_name == "asyncio.sleep":
            self._calls.plan_sleep(snapshot.call_id, float(snapshot.args[0]))
            return self._work(lambda: snapshot.resume({"future": ...}))
        if snapshot.function_name == "time.sleep":
            yield from self._sleep(float(snapshot.args[0]), self._line_of(snapshot))
            return self._work(lambda: snapshot.resume({"return_value": None}))
        return self._work(snapshot.resume_auto)

    def _sleep(self, seconds: float, line: int) -> Iterator[Event]:
        self._line = line
        for nap in slices(self._call, min(seconds, self._budget.until - time.monotonic())):
            self._flag.wait(nap)
            yield PAUSE
        self._budget.check_time()

    def _plan(self, snapshot: FunctionSnapshot) -> Snapshot:
        """Plan a call, which begins when the script waits for it; a wrong one raises TypeError in the script."""
        name = str(snapshot.function_name)
        found = find_function(self._modules, name)
        self._line = self._line_of(snapshot)
        problem = ""
        if found is None:
            problem = f"there is no tool {name}"
        elif snapshot.args:
            problem = f"{name} takes its arguments by name"
        else:
            tool, renamed = found
            try:
                given = plain_value(plain_arguments(snapshot.kwargs, renamed), self._budget.take_argument_bytes)
            except CannotGoOn:
                raise
            except ToolFailed as reason:
                problem = f"{name}: an argument cannot be sent: {reason.message}"
        if problem or found is None:
            return self._work(lambda: snapshot.resume({"exc_type": "TypeError", "message": problem}))
        if self._has_changed(name, tool):
            changed = f"{name}: {CHANGED}"
            return self._work(lambda: snapshot.resume({"exc_type": "RuntimeError", "message": changed}))
        self._calls.plan(snapshot.call_id, PlannedCall(name, self._line, tool, given))
        return self._work(lambda: snapshot.resume({"future": ...}))

    def _settle(self, snapshot: FutureSnapshot) -> Generator[Event, None, Snapshot | None]:
        """Wait for what the script waits for, and give it; None when the run is suspended instead."""
        self._line = self._line_of(snapshot)
        answers: dict[int, Any] = {}
        while not answers:
            if self._calls.only_wait and self._suspend(snapshot):
                return None
            yield from self._calls.settle()
            answers = self._calls.take_answers()
        return self._work(lambda: snapshot.resume(answers))

    def _suspend(self, snapshot: FutureSnapshot) -> bool:
        """Suspend the run, whose calls all wait for a person; return False when it cannot be: they fail then."""
        assert self._durable is not None, "calls wait only in a run that can be suspended"
        waiting = sorted(self._calls.waiting.items())
        sender = self._call.sender if self._call.sender is not None else LOCAL
        suspension = Suspension(
            sender=sender,
            code=self._code,
            inputs=self._inputs,
            line=self._line,
            printed=self._output.text,
            calls=self._rows(),
            waiting=[_waiting_call(id, one) for id, one in waiting],
            left=self._budget.left(self._output.left),
            tools=self._resumed.suspension.tools if self._resumed is not None else self._digests(),
            interpreter=__version__,
            capabilities=dict(self._capabilities),
            secret=secrets.token_hex(SECRET_BYTES),
            last_number=self._calls.last_number,
            asks_on_page=self._asks_on_page,
        )
        claim = self._resumed.claim if self._resumed is not None else None
        questions = [one.question for _, one in waiting if one.question is not None]
        try:
            head = claim.head if claim is not None else self._durable.head
            self.suspended = self._durable.runs.suspend(head, suspension, snapshot.dump(), questions, claim)
        except LostClaim:
            raise
        except ToolFailed as problem:
            self._calls.waiting.clear()
            for id, one in waiting:
                self._calls.fail_waiting(id, one, problem.message)
            return False
        return True

    def _plan_decided(self, resumed: Resumed) -> None:
        """Plan the calls that were approved, and those whose tools have their answers; let the others fail."""
        approvals = resumed.claim.approvals
        for one in resumed.suspension.waiting:
            found = find_function(self._modules, one.name)
            tool = found[0] if found is not None else _unknown_tool(one.name)
            answers = add_answers(one, resumed.answers.get(str(one.id), {}))
            # One that has expired since is asked for again, before the call is made.
            approval = "" if _has_expired(approvals, one.approval) else one.approval
            more: dict[str, Any] = {"approval": approval, "answers": answers, "rounds": one.rounds}
            more |= {"account": one.account, "written": one.written}
            planned = PlannedCall(one.name, one.line, tool, one.arguments, **more)
            state = APPROVED if one.questions else _state_of(approvals, one.approval)
            if one.account is not None and str(one.id) in resumed.answers:
                self._calls.fail_waiting(one.id, planned, DECLINED, is_refused=True)
            elif state == REFUSED:
                self._calls.fail_waiting(one.id, planned, APPROVAL_REFUSED, is_refused=True)
            elif state == EXPIRED:
                self._calls.fail_waiting(one.id, planned, "its approval has expired")
            elif found is None or self._has_changed(one.name, tool):
                self._calls.fail_waiting(one.id, planned, CHANGED)
            else:
                self._calls.plan_approved(one.id, planned)

    def _begin(self, tool: ScriptTool, arguments: dict[str, Any], approval: str) -> InnerCall:
        hub: Any = self._call.hub
        can_wait = self._durable is not None
        limits = (self._new_flag(), self._budget.until)
        outer = self._call.for_script(*limits, approval, self._capabilities, can_wait, self._asks_on_page)
        found: InnerCall = hub.call_for_script(tool.server, tool.descriptor, arguments, outer, tool.pinned)
        return found

    def _new_flag(self) -> CancelFlag:
        """Return the flag of a call: that of the run, unless a question may end the call before the others."""
        if self._durable is None:
            return self._flag
        flag = CancelFlag()
        self._flags.append(flag)
        if self._flag:  # the script has ended meanwhile
            flag.set("the script ended")
        return flag

    def _line_of(self, snapshot: FunctionSnapshot | FutureSnapshot) -> int:
        """Return the line of the script in which something suspended it; 0 for text that the script itself made."""
        position = snapshot.position
        return self._lines[: position.start].count(b"\n") + 1 if position.filename.startswith("<python-input") else 0


def check_interpreter(suspension: Suspension) -> None:
    """Check that a snapshot is of the version of the interpreter that this hub has. Raises ToolFailed."""
    if suspension.interpreter != __version__:
        raise ToolFailed(
            f"the run cannot go on: it was suspended with pydantic-monty {suspension.interpreter}, and this hub has"
            f" {__version__}. Run the script again"
        )


def _waiting_call(id: int, planned: PlannedCall) -> WaitingCall:
    """Return a call that waits for a person, as it is stored."""
    return WaitingCall(
        id,
        planned.name,
        planned.line,
        planned.arguments,
        title=planned.tool.title,
        approval=planned.approval,
        written=planned.written,
        questions={key: {"method": one.method, "params": dict(one.params)} for key, one in planned.asked.items()},
        answers={digest: list(known) for digest, known in planned.answers.items()},
        rounds=planned.rounds,
        account=planned.account,
    )


def _state_of(approvals: Approvals, id: str) -> str:
    """Return the state of an approval now; a forgotten one has expired."""
    found = approvals.find(id)
    if found is None:
        return EXPIRED
    return APPROVED if found.state != REFUSED and found.decided is not None else found.state_at(approvals.now())


def _has_expired(approvals: Approvals, id: str) -> bool:
    """Whether an approval has expired, or is no longer known."""
    found = approvals.find(id)
    return found is None or found.state_at(approvals.now()) == EXPIRED


def _unknown_tool(name: str) -> ScriptTool:
    """Stand for a tool that is no longer there, in the row of its call."""
    return ScriptTool("", Descriptor("tool", name, {}), name)


def _external_module(functions: list[str], module: ScriptModule) -> ExternalModule:
    return ExternalModule(dict.fromkeys(functions, _never), stubs=module.stubs(functions))


def _never(**arguments: Any) -> None:
    """Stand for a tool: each call of it comes to `_serve` instead."""
    raise AssertionError("calls of tools are served one by one")


def check_inputs(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the inputs of a script. Raises ToolFailed for a name that no Python variable can have."""
    for name in inputs:
        if identifier(name) != name:
            raise ToolFailed(
                f"inputs: {name!r:.80} cannot be the name of a Python variable; write {identifier(name)!r}"
            )
    return inputs
