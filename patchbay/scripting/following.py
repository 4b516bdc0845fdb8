"""Gives the caller of a suspended run what becomes of it: asks the caller's client, waits, and returns the outcome.

The caller need not wait: the run goes on without it, and the same call of `run_script` gets the outcome. A client that
shows forms is asked by one question about all waiting calls; for any other, the page /approvals has it.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from patchbay.access.approval_gate import can_ask
from patchbay.access.approval_questions import ask_client, question_key, read_answer
from patchbay.access.approvals import (
    APPROVAL_SECONDS,
    Approval,
    Approvals,
    AskedCall,
    UnknownApproval,
    canonical_arguments,
)
from patchbay.activation import Call, Events, pauses_for
from patchbay.catalogue.servers.script_tools import RUN
from patchbay.errors import ToolFailed
from patchbay.events import Ask, Content, Data, Event, Text
from patchbay.scripting.suspended_runs import DECIDED, EXPIRED, SUSPENDED, Outcome, RunHead, SuspendedRuns
from patchbay.scripting.values import compact_json
from patchbay.topics import APPROVALS, SCRIPT_RUNS

RUNNING_SECONDS = 90.0
"""Seconds that a caller waits for the end of a run that goes on: more than a run may take."""

GONE = "the run that asked this has ended, or its time is over. Send the call without answers to run the script again"


class ResumedScripts(Protocol):
    """What goes on with suspended runs in this process. A client that is not asked waits `wait_seconds`."""

    @property
    def runs(self) -> SuspendedRuns: ...

    @property
    def wait_seconds(self) -> float: ...

    @property
    def process(self) -> str:
        """The id of this process, whose signs of life renew its claims."""
        ...

    def resume(self, id: str) -> None:
        """Go on with a run on a thread of its own, unless another process does."""
        ...


def follow_run(id: str, call: Call, scripts: ResumedScripts) -> Events:
    """Wait for the end of a run, and yield its output and its value.

    Asks the client about the calls that wait, once for each question. Raises ToolFailed with the reason of a run that
    failed, of one without a decision in time, and for a client that cannot be asked, after `wait_seconds`.
    """
    runs, asked, waits_since = scripts.runs, "", time.monotonic()
    with runs.store.bus.subscribe([APPROVALS, SCRIPT_RUNS]) as mailbox:
        pauses = pauses_for(call, mailbox)
        while True:
            while mailbox.get(0) is not None:
                pass
            head = runs.head(id)
            if head is None:
                raise ToolFailed(GONE)
            state = runs.state_of(head)
            if head.ended:
                yield from _fetch(runs, head)
                return
            if state == EXPIRED:
                raise ToolFailed(f"the run {id} has ended: there was no decision about its calls in time")
            if state == SUSPENDED and can_ask(call) and asked != head.question:
                asked = head.question
                yield from _ask(runs, head, call)
                continue
            if state == SUSPENDED and not can_ask(call):
                if time.monotonic() - waits_since >= scripts.wait_seconds:
                    raise ToolFailed(describe_waiting(runs, head, call.shown or head.tool))
            else:
                waits_since = time.monotonic()
                call.deadline = max(call.deadline, waits_since + RUNNING_SECONDS)
            if state == DECIDED:
                scripts.resume(id)
            yield next(pauses)


def outcome_events(outcome: Outcome, run: str) -> Generator[Event, Any, None]:
    """Yield what a run printed, and its value. Raises ToolFailed for a run that failed."""
    if outcome.printed:
        yield Text(outcome.printed)
    if outcome.failure:
        raise ToolFailed(outcome.failure)
    value = outcome.value
    yield Content({"type": "text", "text": value if isinstance(value, str) else compact_json(value)})
    yield Data({"value": value, "calls": outcome.calls, "run": run}, text="")


def describe_waiting(runs: SuspendedRuns, head: RunHead, tool: str) -> str:
    """Return the sentence for a caller whose client cannot be asked: what waits, and how to get the outcome.

    `tool` is the tool that the caller called.
    """
    count = len(runs.approvals.find_question(head.question))
    calls = "1 call of it needs" if count == 1 else f"{count} calls of it need"
    minutes = round(APPROVAL_SECONDS / 60)
    same = "script" if tool == RUN else "arguments"
    return (
        f"The script waits: {calls} an approval, and there is no decision yet. An administrator can decide"
        f" on the page /approvals of this hub within {minutes} minutes (run {head.id}). The run goes on then; call"
        f" {tool} with the same {same} again to get its value"
    )


def is_answer_of_run(key: str) -> bool:
    """Whether a key of an answer is that of a question about calls of a run."""
    return key.startswith(question_key("")) and "-" in key.removeprefix(question_key(""))


def _fetch(runs: SuspendedRuns, head: RunHead) -> Generator[Event, Any, None]:
    state = runs.read(head.id)
    if state is None or state.outcome is None:
        raise ToolFailed(GONE)
    outcome = runs.outcome(state)
    runs.mark_fetched(head.id)
    yield from outcome_events(outcome, head.id)


def _ask(runs: SuspendedRuns, head: RunHead, call: Call) -> Generator[Event, Any, None]:
    """Ask the caller's client about the calls of a question, and decide as it answers."""
    state = runs.read(head.id)
    if state is None:
        return
    waiting = {one.approval: one for one in runs.open(state)[0].waiting}
    asked = [one for one in runs.approvals.find_question(head.question) if one.id in waiting]
    if not asked:
        return
    calls = [AskedCall(one.call, canonical_arguments(waiting[one.id].arguments)) for one in asked]
    yield from ask_about(runs.approvals, asked, calls, call)


def ask_about(
    approvals: Approvals, asked: Sequence[Approval], calls: Sequence[AskedCall], call: Call
) -> Generator[Event, Any, None]:
    """Ask the client of a call about all `calls` of one question, whose approvals are `asked`; decide as it answers.

    The deadline of the call moves to the end of the question.
    """
    call.deadline = max(call.deadline, time.monotonic() + asked[0].expires - approvals.now())
    key = question_key(asked[0].question)
    answers = yield Ask({key: ask_client(calls)})
    ticks = read_answer(answers.get(key) if isinstance(answers, Mapping) else None, calls)
    approved = {one.id for one, is_approved in zip(asked, ticks, strict=True) if is_approved}
    # It may have been decided on the page while the client was asked.
    with suppress(UnknownApproval):
        approvals.decide_all(asked[0].question, approved, call.principal)
