"""Gives the caller of a suspended run what becomes of it: asks the caller's client, waits, and returns the outcome.

The caller need not wait: the run goes on without it, and the same call of `run_script` gets the outcome. A client that
shows forms is asked by one question about all calls that need an approval; for any other, the page /approvals has it.
The questions of tools are for the caller: the client gets those that it can show at the same time, with the pages where
its user connects accounts, and the page of the run has all of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from patchbay.access.approval_gate import can_ask
from patchbay.access.approval_questions import ask_client, question_key, read_answer
from patchbay.access.approvals import (
    WAITING,
    Approval,
    Approvals,
    AskedCall,
    UnknownApproval,
    canonical_arguments,
)
from patchbay.access.principals import LOCAL_ID
from patchbay.activation import Call, Events, has_tasks, pauses_for
from patchbay.caller_accounts.pages import CONNECT_SECONDS, can_open_pages
from patchbay.catalogue.servers.script_tools import RUN
from patchbay.errors import ToolFailed
from patchbay.events import Ask, Content, Data, Detach, Event, Text
from patchbay.scripting.suspended.run_records import DECIDED, EXPIRED, SUSPENDED, Outcome, RunHead
from patchbay.scripting.suspended.suspended_runs import SuspendedRuns
from patchbay.scripting.suspended.tool_questions import (
    KEY,
    can_answer,
    can_show,
    open_questions,
    pages_of,
    read_answers,
    read_declined,
)
from patchbay.scripting.values import compact_json
from patchbay.topics import APPROVALS, SCRIPT_RUNS, UPSTREAM_SIGN_INS_CHANGED

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

    def has_caller(self, head: RunHead) -> bool:
        """Whether the credentials with which a run began are still valid; True for a run that has no snapshot now."""
        ...

    def resume(self, id: str) -> None:
        """Go on with a run on a thread of its own, unless another process does."""
        ...


def follow_run(id: str, call: Call, scripts: ResumedScripts) -> Events:
    """Wait for the end of a run, and yield its output and its value.

    Asks the client about the calls that wait, once each time that the run is suspended. The call of a client with tasks
    becomes a task, which waits for the person. Raises ToolFailed with the reason of a run that failed, of one without a
    decision in time, and after `wait_seconds` while the run waits for more than another client was asked.
    """
    runs, asked, waits_since = scripts.runs, 0, time.monotonic()
    # A call that brings answers gives them first: a task would ask again.
    may_detach = has_tasks(call.capabilities) and not any(is_answer_of_run(key) for key in call.answered)
    with runs.store.bus.subscribe([APPROVALS, SCRIPT_RUNS, UPSTREAM_SIGN_INS_CHANGED]) as mailbox:
        pauses = pauses_for(call, mailbox)
        while True:
            while mailbox.get(0) is not None:
                pass
            head = runs.heads.get(id)
            if head is None:
                raise ToolFailed(GONE)
            state = runs.state_of(head)
            if head.ended:
                yield from _fetch(runs, head)
                return
            if state == EXPIRED:
                raise ToolFailed(describe_expired(runs, head))
            if state == SUSPENDED and may_detach:
                may_detach = False
                yield Detach()
                continue
            if state == SUSPENDED:
                if asked != head.number and _reaches(call, head):
                    asked = head.number
                    yield from _ask(runs, head, call)
                    waits_since = time.monotonic()
                    continue
                limit = CONNECT_SECONDS if head.accounts and can_open_pages(call) else scripts.wait_seconds
                if call.cancelled.outlives_caller:
                    call.deadline = max(call.deadline, time.monotonic() + RUNNING_SECONDS)
                elif time.monotonic() - waits_since >= limit and (said := describe_waiting(runs, head, call)):
                    raise ToolFailed(said)
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


def with_calls(sentence: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a failure with the calls that were made, from their rows in the result: their effects stay."""
    made = [one for one in rows if not one.get("refused")]
    if not made:
        return sentence
    listed = ", ".join(
        f"{one['tool']} (line {one['line']}{', failed' if one.get('failed') else ''})" for one in made[-20:]
    )
    return f"{sentence}\n{len(made)} call{'s were' if len(made) > 1 else ' was'} made: {listed}"


def describe_waiting(runs: SuspendedRuns, head: RunHead, call: Call) -> str:
    """Return the sentence for a caller whose client cannot be asked: what waits, and how to get the outcome.

    Returns "" for a run that does not wait any more.
    """
    now, tool = runs.approvals.now(), call.shown or head.tool
    minutes = max(1, math.ceil((head.until - now) / 60))
    end = f"within {minutes} minute{'' if minutes == 1 else 's'} (run {head.id})"
    same = "script" if tool == RUN else "arguments"
    waits = []
    if count := sum(one.state_at(now) == WAITING for one in runs.approvals.find_question(head.question)):
        calls = "1 call of it needs" if count == 1 else f"{count} calls of it need"
        waits.append(
            f"{calls} an approval, and there is no decision yet. An administrator can decide"
            f" on the page /approvals of this hub {end}"
        )
    lacking = runs.lacking_accounts(head)
    state = runs.read(head.id)  # last, so that a run that has ended meanwhile is not told to wait
    if state is not None and state.outcome is not None:
        return ""
    if state is not None and head.waits_for_answers(now):
        count = len(open_questions(runs.seals.open(state)[0], runs.seals.open_answers(state)))
        waits.append(f"{_describe_questions(count, head, call)} {end}")
    if state is not None and lacking:
        browser = f"in a browser in which you are signed in to the hub, {end}"
        for page in pages_of(runs.seals.open(state)[0], lacking).values():
            waits.append(f"{page.params['message']} Open {page.params['url']} {browser}")
    if not waits:
        return ""
    return (
        f"The script waits: {'. '.join(waits)}. The run goes on then; call {tool} with the same {same} again to get"
        " its value"
    )


def _describe_questions(count: int, head: RunHead, call: Call) -> str:
    """Return where the caller of a run answers the questions of its tools that are open."""
    asked = "1 question of a tool has" if count == 1 else f"{count} questions of tools have"
    person = "the operator" if head.principal == LOCAL_ID else "the caller of the script"
    return (
        f"{asked} no answer yet (only a client with the capability elicitation shows them itself). Answer on the page"
        f" {_page_of_run(head, call)}, in a browser in which you are signed in to the hub as {person},"
    )


def _page_of_run(head: RunHead, call: Call) -> str:
    """Return the URL of the page of a run, or its path for a caller that did not come by HTTP."""
    path, base = f"/activity/runs/{head.id}", call.find_base_url()
    return f"{base}{path}" if base else f"{path} of this hub"


def is_answer_of_run(key: str) -> bool:
    """Whether a key of an answer is that of a question about calls of a run, or of a tool that it called."""
    return key.startswith(KEY) or (key.startswith(question_key("")) and "-" in key.removeprefix(question_key("")))


def describe_expired(runs: SuspendedRuns, head: RunHead) -> str:
    """Return what a run did not get in time: what its caller and the people who decide left open, or a process."""
    asked = runs.approvals.find_question(head.question)
    missing = []
    if head.question and (not asked or any(one.decided is None for one in asked)):
        missing.append("decision about its calls")
    if head.asks and not head.is_answered:
        missing.append("answer to a question of its tools")
    state = runs.read(head.id)
    if head.accounts and (runs.lacks_account(head) or not (missing or (state is not None and state.owner))):
        missing.append("account that one of its calls needs")
    if not missing:
        return f"the run {head.id} has ended: no process of the hub went on with it in time"
    return f"the run {head.id} has ended: there was no {' and no '.join(missing)} in time"


def _reaches(call: Call, head: RunHead) -> bool:
    """Whether the client of a call can be asked something that a suspended run waits for."""
    if (head.question and can_ask(call)) or (head.accounts and can_open_pages(call)):
        return True
    return bool(head.asks) and not head.is_answered and can_answer(call)


def _fetch(runs: SuspendedRuns, head: RunHead) -> Generator[Event, Any, None]:
    state = runs.read(head.id)
    if state is None or state.outcome is None:
        raise ToolFailed(GONE)
    outcome = runs.seals.open_outcome(state)
    runs.mark_fetched(head.id)
    yield from outcome_events(outcome, head.id)


def _ask(runs: SuspendedRuns, head: RunHead, call: Call) -> Generator[Event, Any, None]:
    """Ask the caller's client what a suspended run waits for, all at once, and decide and reply as it answers."""
    state = runs.read(head.id)
    if state is None or state.outcome is not None:
        return
    suspension, now = runs.seals.open(state)[0], runs.approvals.now()
    waiting = {one.approval: one for one in suspension.waiting if not one.questions}
    asked = [one for one in runs.approvals.find_question(head.question) if one.id in waiting]
    if not can_ask(call) or not any(one.state_at(now) == WAITING for one in asked):
        asked = []
    calls = [AskedCall(one.call, canonical_arguments(waiting[one.id].arguments)) for one in asked]
    questions = {}
    if head.waits_for_answers(now):
        found = open_questions(suspension, runs.seals.open_answers(state))
        questions = {key: shown for key, one in found.items() if can_show(call, shown := one.for_client())}
    pages = pages_of(suspension, runs.lacking_accounts(head)) if can_open_pages(call) else {}
    if not asked and not questions and not pages:
        return
    call.deadline = max(call.deadline, time.monotonic() + head.until - now)
    own = {question_key(head.question): ask_client(calls)} if asked else {}
    given = yield Ask({**own, **questions, **pages})
    answers: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    if asked:
        _decide(runs.approvals, asked, calls, answers, call)
    replies = read_answers(suspension, answers, questions) if questions else None
    if replies:
        runs.answer(head, replies)
    if pages and (declined := read_declined(suspension, answers)):
        runs.decline(head, declined)


def ask_about(
    approvals: Approvals, asked: Sequence[Approval], calls: Sequence[AskedCall], call: Call
) -> Generator[Event, Any, None]:
    """Ask the client of a call about all `calls` of one question, whose approvals are `asked`; decide as it answers.

    The deadline of the call moves to the end of the question.
    """
    call.deadline = max(call.deadline, time.monotonic() + asked[0].expires - approvals.now())
    answers = yield Ask({question_key(asked[0].question): ask_client(calls)})
    _decide(approvals, asked, calls, answers if isinstance(answers, Mapping) else {}, call)


def _decide(
    approvals: Approvals,
    asked: Sequence[Approval],
    calls: Sequence[AskedCall],
    answers: Mapping[str, Any],
    call: Call,
) -> None:
    """Decide about the calls of one question as the client of a call has answered."""
    ticks = read_answer(answers.get(question_key(asked[0].question)), calls)
    approved = {one.id for one, is_approved in zip(asked, ticks, strict=True) if is_approved}
    # It may have been decided on the page while the client was asked.
    with suppress(UnknownApproval):
        approvals.decide_all(asked[0].question, approved, call.principal)
