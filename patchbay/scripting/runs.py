"""Runs scripts: the interpreter works until it needs something, gets it, and works on.

The types are checked before anything runs. What a script asks for is a call (`calls.py`), a sleep, or a module of
tools; the interpreter has nothing else from this machine.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from pydantic_monty import (
    ExternalModule,
    FunctionSnapshot,
    FutureSnapshot,
    MontyComplete,
    MontyError,
    MontySession,
    NameLookupSnapshot,
)

from patchbay.activation import PAUSE, Call, CancelFlag, Events, slices
from patchbay.catalogue.servers import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import ToolFailed
from patchbay.events import Content, Data, Event, Text
from patchbay.scripting.calls import InnerCall, PlannedCall, ScriptCalls
from patchbay.scripting.failures import SCRIPT, describe_failure, describe_time, is_harmless, place_after
from patchbay.scripting.interpreters import Interpreter, Interpreters
from patchbay.scripting.limits import MIB, Budget, LimitReached, RunLimits, ValueBytes
from patchbay.scripting.modules import (
    ScriptModule,
    ScriptModules,
    ScriptTool,
    find_function,
    modules_of,
    plain_arguments,
    words_of,
)
from patchbay.scripting.stubs.names import identifier
from patchbay.scripting.values import compact_json, plain_value

ID_BYTES = 8
"""Bytes of the id of a run."""

Snapshot = FunctionSnapshot | FutureSnapshot | NameLookupSnapshot | MontyComplete
"""What the interpreter asks for, or its result."""


class ScriptHub(Protocol):
    """The part of the hub that runs use."""

    def call_for_script(
        self, server: str, descriptor: Descriptor, arguments: dict[str, Any], call: Call, pinned: Server | None
    ) -> InnerCall: ...


class ScriptRuns:
    """Runs the scripts of one process of the hub. Safe to use from many threads."""

    def __init__(self, limits: RunLimits | None = None, interpreters: Interpreters | None = None) -> None:
        self.limits = limits or RunLimits()
        self.interpreters = interpreters or Interpreters()
        self._budgets: dict[str, Budget] = {}
        self._lock = threading.Lock()

    def run(self, server: Server, call: Call) -> Events:
        """Run the script of a call (`code`, `inputs`) with the tools of a server; yield its output and its value.

        Raises ToolFailed with the reason and the line.
        """
        with self._budget(call) as budget:
            modules = modules_of(server)
            interpreter = yield from self.interpreters.take(call)
            run = None
            try:
                run = _Run(interpreter, modules, call, budget)
                yield from run.events()
            finally:
                self.interpreters.give_back(interpreter, run is not None and run.is_whole)

    def close(self) -> None:
        """End all interpreters."""
        self.interpreters.close()

    @contextmanager
    def _budget(self, call: Call) -> Iterator[Budget]:
        """Give the budget of a run: that of the outer one for a run that a tool of a script began."""
        with self._lock:
            budget = self._budgets.get(call.run)
            if budget is None:
                call.run, call.run_depth = secrets.token_hex(ID_BYTES), 0
                budget = self._budgets[call.run] = Budget(self.limits)
            budget.check_depth(call.run_depth)
            budget.runs += 1
        call.run_depth += 1
        try:
            yield budget
        finally:
            call.run_depth -= 1
            with self._lock:
                budget.runs -= 1
                if not budget.runs:
                    del self._budgets[call.run]


class _Output:
    """What a script prints. More than `limit` bytes end it, by `end`: the interpreter goes on while it prints."""

    def __init__(self, limit: int, end: Callable[[], None]) -> None:
        self.is_over = False
        self._pieces: list[str] = []
        self._left = limit
        self._end = end

    def __call__(self, stream: str, text: str) -> None:
        self._left -= len(text.encode("utf-8", "replace"))
        if self._left >= 0:
            self._pieces.append(text)
        elif not self.is_over:
            self.is_over = True
            self._end()

    @property
    def text(self) -> str:
        """The text up to the piece that was too much."""
        return "".join(self._pieces)


class _Run:
    """One run of one script, on one thread."""

    def __init__(self, interpreter: Interpreter, modules: ScriptModules, call: Call, budget: Budget) -> None:
        self.is_whole = False
        """Whether the interpreter may run another script."""
        self._interpreter = interpreter
        self._modules = modules
        self._call = call
        self._budget = budget
        self._code: str = call.arguments["code"]
        self._lines = self._code.encode("utf-8", "replace")
        self._output = _Output(budget.limits.output_bytes, interpreter.kill)
        self._flag = CancelFlag()
        self._calls = ScriptCalls(call, budget, self._begin)
        self._line = 0
        self._started = 0.0

    def events(self) -> Events:
        """Yield the events of the run; the last ones are its output and its value. Raises ToolFailed."""
        inputs = _check_inputs(self._call.arguments.get("inputs", {}))
        try:
            value = yield from self._drive(inputs)
        except MontyError as problem:
            self.is_whole = is_harmless(problem)
            yield from self._printed()
            raise ToolFailed(self._with_calls(self._explain(problem))) from problem
        except LimitReached as problem:
            yield from self._printed()
            place = "" if problem.message.startswith("line ") else f"line {self._line}: " if self._line else ""
            raise ToolFailed(self._with_calls(f"{place}{problem.message}")) from problem
        finally:
            # What still runs is of no more use: the script has ended without it.
            self._flag.set("the script ended")
        yield from self._printed()
        try:
            plain = plain_value(value, ValueBytes(self._budget.limits.value_bytes).take)
        except ToolFailed as problem:
            sentence = f"the value of the script cannot be returned: {problem.message}"
            raise ToolFailed(self._with_calls(sentence)) from None
        yield Content({"type": "text", "text": plain if isinstance(plain, str) else compact_json(plain)})
        rows = [one.row() for one in self._calls.made]
        yield Data({"value": plain, "calls": rows, "run": self._call.run}, text="")

    def _explain(self, problem: MontyError) -> str:
        limits = self._budget.limits
        if self._output.is_over:
            sentence = f"the script prints more than {limits.output_bytes} bytes (limit output_bytes)"
            return f"{place_after(self._line)}: {sentence}"
        if self._interpreter.reached:
            return f"{place_after(self._line)}: {describe_time(self._interpreter.reached, limits)}"
        return describe_failure(problem, limits, self._line)

    def _drive(self, inputs: Mapping[str, Any]) -> Generator[Event, None, Any]:
        """Let the interpreter work until it has a value; return that. Raises MontyError, LimitReached."""
        given = dict(inputs)
        with self._checkout(inputs) as session:
            self._interpreter.pid = session.worker_pid
            snapshot = self._work(lambda: session.feed_start(self._code, inputs=given, print_callback=self._output))
            while not isinstance(snapshot, MontyComplete):
                self._budget.check_time()
                if isinstance(snapshot, FutureSnapshot):
                    snapshot = yield from self._settle(snapshot)
                elif isinstance(snapshot, FunctionSnapshot):
                    snapshot = yield from self._serve(snapshot)
                else:
                    snapshot = self._work(snapshot.resume_auto)
            value = snapshot.output
        self.is_whole = True
        return value

    def _checkout(self, inputs: Mapping[str, Any]) -> MontySession:
        limits = self._budget.limits
        declared = "".join(f"{name}: Any\n" for name in inputs)
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
        words = words_of(self._code)
        used = [one for name, one in self._modules.modules.items() if name in words]
        return {one.name: partial(_external_module, one.seen_by(words), one) for one in used}

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
            except LimitReached:
                raise
            except ToolFailed as reason:
                problem = f"{name}: an argument cannot be sent: {reason.message}"
        if problem or found is None:
            return self._work(lambda: snapshot.resume({"exc_type": "TypeError", "message": problem}))
        self._calls.plan(snapshot.call_id, PlannedCall(name, self._line, tool, given))
        return self._work(lambda: snapshot.resume({"future": ...}))

    def _settle(self, snapshot: FutureSnapshot) -> Generator[Event, None, Snapshot]:
        """Wait for what the script waits for, and give it."""
        self._line = self._line_of(snapshot)
        answers: dict[int, Any] = {}
        while not answers:
            yield from self._calls.settle()
            answers = self._calls.take_answers()
        return self._work(lambda: snapshot.resume(answers))

    def _begin(self, tool: ScriptTool, arguments: dict[str, Any]) -> InnerCall:
        hub: Any = self._call.hub
        outer = self._call.for_script(self._flag, self._budget.until)
        found: InnerCall = hub.call_for_script(tool.server, tool.descriptor, arguments, outer, tool.pinned)
        return found

    def _line_of(self, snapshot: FunctionSnapshot | FutureSnapshot) -> int:
        """Return the line of the script in which something suspended it; 0 for text that the script itself made."""
        position = snapshot.position
        return self._lines[: position.start].count(b"\n") + 1 if position.filename.startswith("<python-input") else 0

    def _printed(self) -> Iterator[Event]:
        if self._output.text:
            yield Text(self._output.text)

    def _with_calls(self, sentence: str) -> str:
        """Return a failure with the calls that were made: their effects stay."""
        made = self._calls.made
        if not made:
            return sentence
        listed = ", ".join(f"{one.name} (line {one.line}{', failed' if one.has_failed else ''})" for one in made[-20:])
        return f"{sentence}\n{len(made)} call{'s were' if len(made) > 1 else ' was'} made: {listed}"


def _external_module(functions: list[str], module: ScriptModule) -> ExternalModule:
    return ExternalModule(dict.fromkeys(functions, _never), stubs=module.stubs(functions))


def _never(**arguments: Any) -> None:
    """Stand for a tool: each call of it comes to `_serve` instead."""
    raise AssertionError("calls of tools are served one by one")


def _check_inputs(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the inputs of a script. Raises ToolFailed for a name that no Python variable can have."""
    for name in inputs:
        if identifier(name) != name:
            raise ToolFailed(
                f"inputs: {name!r:.80} cannot be the name of a Python variable; write {identifier(name)!r}"
            )
    return inputs
