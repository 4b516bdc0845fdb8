"""Runs the scripts of one process: begins them, lets their callers follow suspended ones, and goes on with those."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from patchbay.activation import Call, Events
from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.servers.script_tools import RUN
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import ToolFailed
from patchbay.events import Event
from patchbay.scripting.calls import InnerCall
from patchbay.scripting.cancelling import end_with_call
from patchbay.scripting.following import GONE, ResumedScripts, follow_run, is_answer_of_run
from patchbay.scripting.interpreters import Interpreters
from patchbay.scripting.limits import Budget, RunLimits
from patchbay.scripting.modules import modules_of
from patchbay.scripting.rehearsals import RehearsedScript, report_rehearsal
from patchbay.scripting.script_run import Durable, Resumed, ScriptRun, check_interpreter
from patchbay.scripting.suspended.run_records import Outcome, RunHead
from patchbay.scripting.suspended.suspended_runs import LostClaim
from patchbay.scripting.suspended.suspension import BudgetLeft, digest_of_rehearsal, digest_of_script

ID_BYTES = 8
"""Bytes of the id of a run."""

SAVED = "entry"
"""The member of the target of a saved script that has the name of its tool."""

FAILED_HERE = "the hub failed while it went on with this run"


class ScriptHub(Protocol):
    """The part of the hub that runs use. `resumed_scripts` is None for a hub that cannot suspend them."""

    resumed_scripts: ResumedScripts | None

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

        The same call of the same principal goes on with its suspended run. Raises ToolFailed with the reason and the
        line, and for a run that waits for a person whom this call does not reach.
        """
        scripts = _resumed_scripts(call)
        rehearsed = _rehearsed_script(server, call, scripts)
        if call.resumes:
            assert scripts is not None, "only a hub that suspends runs goes on with one"
            yield from self._resume(server, call, scripts)
            return
        # A tool that called the script waits for it here, and a version of a server is not there for ever.
        durable = None
        is_kept = not (call.run or server.pinned or call.arguments.get("rehearse"))
        if scripts is not None and is_kept and len(call.chain) <= 1:
            head = _new_head(server, call, scripts.runs.store.now())
            known = scripts.runs.find(head.principal, head.server, head.script)
            # A new key with the name of a revoked one did not begin the run of that, and gets nothing of it.
            if known is not None and scripts.has_caller(known):
                yield from _follow(known.id, call, scripts)
                return
            if any(is_answer_of_run(key) for key in call.answered):
                raise ToolFailed(GONE)
            durable = Durable(scripts.runs, head)
        run = yield from self._run(server, call, durable, rehearsed)
        if run.rehearsal is not None:
            yield from report_rehearsal(run.rehearsal, call, rehearsed)
        if run.suspended is not None and scripts is not None:
            yield from _follow(run.suspended.id, call, scripts)

    def close(self) -> None:
        """End all interpreters."""
        self.interpreters.close()

    def _run(
        self, server: Server, call: Call, durable: Durable | None, rehearsed: RehearsedScript | None
    ) -> Generator[Event, Any, ScriptRun]:
        """Yield the events of a run that begins now, until it ends or is suspended; return the run.

        It uses the approvals of `rehearsed`.
        """
        take = rehearsed.take_approval if rehearsed is not None else None
        with self._budget(call, durable) as budget:
            modules = modules_of(server)
            interpreter = yield from self.interpreters.take(call)
            run = None
            try:
                run = ScriptRun(interpreter, modules, call, budget, durable, take_approval=take)
                yield from run.events()
            finally:
                self.interpreters.give_back(interpreter, run is not None and run.is_whole)
        return run

    def _resume(self, server: Server, call: Call, scripts: ResumedScripts) -> Events:
        """Go on with a run whose calls are decided, unless another process does. Raises ToolFailed, LostClaim."""
        runs, run = scripts.runs, None
        interpreter = yield from self.interpreters.take(call)
        try:
            claim = runs.claim(call.resumes, scripts.process)
            if claim is None:
                raise LostClaim("another process of the hub goes on with this run, or it has ended")
            try:
                suspension, snapshot = runs.seals.open(claim.state)
                check_interpreter(suspension)
                durable = Durable(runs, claim.head)
                resumed = Resumed(claim, suspension, snapshot, runs.seals.open_answers(claim.state))
                with self._budget(call, durable, suspension.left) as budget:
                    run = ScriptRun(interpreter, modules_of(server), call, budget, durable, resumed)
                    yield from run.events()
            except LostClaim:
                raise
            except Exception as problem:
                failure = problem.message if isinstance(problem, ToolFailed) else FAILED_HERE
                claim.end(
                    run.outcome if run is not None and run.outcome is not None else Outcome("", None, [], failure)
                )
                raise
            if run.outcome is not None:
                claim.end(run.outcome)
        finally:
            self.interpreters.give_back(interpreter, run is not None and run.is_whole)

    @contextmanager
    def _budget(self, call: Call, durable: Durable | None, left: BudgetLeft | None = None) -> Iterator[Budget]:
        """Give the budget of a run: that of the outer one for a run that a tool of a script began.

        `left` is what a run that goes on has left.
        """
        with self._lock:
            budget = self._budgets.get(call.run)
            if budget is None:
                call.run, call.run_depth = durable.head.id if durable else secrets.token_hex(ID_BYTES), 0
                budget = self._budgets[call.run] = Budget(self.limits, left)
            budget.check_depth(call.run_depth)
            budget.runs += 1
        call.run_depth += 1
        try:
            yield budget
        finally:
            call.run_depth -= 1
            with self._lock:
                budget.runs -= 1
                # A run that was suspended may go on here before the thread that suspended it comes to this line.
                if not budget.runs and self._budgets.get(call.run) is budget:
                    del self._budgets[call.run]


def _follow(id: str, call: Call, scripts: ResumedScripts) -> Events:
    """Yield what becomes of a suspended run, which ends when its caller cancels the call. Raises ToolFailed."""
    return end_with_call(id, scripts.runs, call, follow_run(id, call, scripts))


def _resumed_scripts(call: Call) -> ResumedScripts | None:
    hub: Any = call.hub
    found: ResumedScripts | None = hub.resumed_scripts
    return found


def _rehearsed_script(server: Server, call: Call, scripts: ResumedScripts | None) -> RehearsedScript | None:
    """Return what a script may ask for when it is rehearsed, and use when it runs.

    None for a run inside another one, for one that a tool began, and for one that was suspended: what it needs after
    that was in no rehearsal.
    """
    if scripts is None or call.resumes or call.run or len(call.chain) > 1:
        return None
    digest = digest_of_rehearsal(_endpoint(server), call.arguments["code"], call.arguments.get("inputs", {}))
    return RehearsedScript(scripts.runs.approvals, digest)


def _endpoint(server: Server) -> str:
    """Return the name of the server at whose endpoint a script runs, "" for all servers."""
    return "" if isinstance(server, Aggregate) else server.name


def _new_head(server: Server, call: Call, now: float) -> RunHead:
    """Return the head of a run that begins now."""
    return RunHead(
        id=secrets.token_hex(ID_BYTES),
        principal=call.principal,
        server=_endpoint(server),
        version=server.version,
        number=0,
        question="",
        script=digest_of_script(call.arguments["code"], call.arguments.get("inputs", {})),
        began=now,
        until=now,
        tool=call.target.get(SAVED, RUN),
    )
