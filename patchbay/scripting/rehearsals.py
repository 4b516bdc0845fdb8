"""Shows a rehearsal: the calls that a script would make, and one question about those that need an approval.

What is approved is for the next runs of the same script with the same inputs, by the same principal at the same
endpoint: each approved call is made once without a further question. Every other call asks as it always does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchbay.access.approval_gate import can_ask
from patchbay.access.approval_questions import question_key
from patchbay.access.approvals import APPROVAL_SECONDS, WAITING, Approval, Approvals, AskedCall, CallDigest
from patchbay.activation import Call, Events
from patchbay.errors import ToolFailed
from patchbay.events import Content, Data, Event, Text
from patchbay.scripting.calls import PlannedCall
from patchbay.scripting.following import ask_about
from patchbay.scripting.suspended.run_records import Outcome
from patchbay.scripting.values import compact_json

NOT_MADE = "Calls that may change something, and were not made"


@dataclass(frozen=True, slots=True)
class HeldCall:
    """A call that a rehearsal did not make. `asked` is the exact call if it needs an approval."""

    planned: PlannedCall
    asked: AskedCall | None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A rehearsal that has ended; `has_value` says that the script came to its end."""

    outcome: Outcome
    has_value: bool
    held: Sequence[HeldCall]


@dataclass(frozen=True, slots=True)
class RehearsedScript:
    """Where the approvals of a rehearsed script are; `digest` is that of the script, its inputs and its endpoint."""

    approvals: Approvals
    digest: str

    def take_approval(self, call: CallDigest) -> str:
        """Take an approval for a call of a run of this script; return its id, "" if there is none."""
        return self.approvals.take_rehearsed(self.digest, call)


def report_rehearsal(rehearsal: Rehearsal, call: Call, script: RehearsedScript | None) -> Events:
    """Ask for the approvals of a rehearsal, and yield what it printed, the calls that it did not make, and its value.

    A client that shows forms is asked; for any other the page /approvals has the question, and nothing waits for it.
    Nothing is asked without `script`.
    """
    needing = [one.asked for one in rehearsal.held if one.asked is not None]
    known: list[Approval] = []
    note = ""
    if needing and script is not None:
        try:
            known = yield from _ask(needing, call, script)
            note = _describe_decisions(known, script.approvals.now(), call.run)
        except ToolFailed as problem:
            note = f"{_count(len(needing))} an approval, which was not asked for: {problem.message}"
    yield from _events(rehearsal, call.run, _states(rehearsal.held, known, script), note)


def _ask(needing: Sequence[AskedCall], call: Call, script: RehearsedScript) -> Generator[Event, Any, list[Approval]]:
    """Ask one question about the calls; return their approvals as they are then, in order. Raises ToolFailed."""
    approvals = script.approvals
    answered = {key.removeprefix(question_key("")) for key in call.answered}
    known = approvals.ask_rehearsed(call.run, script.digest, needing, answered)
    if can_ask(call) and any(one.state_at(approvals.now()) == WAITING for one in known):
        yield from ask_about(approvals, known, needing, call)
    return approvals.find_question(known[0].question)


def _states(held: Sequence[HeldCall], known: Sequence[Approval], script: RehearsedScript | None) -> Mapping[int, str]:
    """Return the states of the approvals that were asked for, by the index of the call in the rehearsal."""
    if script is None or not known:
        return {}
    now = script.approvals.now()
    needing = [index for index, one in enumerate(held) if one.asked is not None]
    return {index: one.state_at(now) for index, one in zip(needing, known, strict=True)}


def _events(rehearsal: Rehearsal, run: str, states: Mapping[int, str], note: str) -> Iterator[Event]:
    outcome = rehearsal.outcome
    if outcome.printed:
        yield Text(outcome.printed)
    held = [one.planned for one in rehearsal.held]
    lines = [f"line {one.line}: {one.name}({_as_arguments(one.arguments)})" for one in held]
    lines = [f"{line} [{states[index]}]" if index in states else line for index, line in enumerate(lines)]
    yield Text("\n".join([f"{NOT_MADE}: {len(held)}", *lines, *([note] if note else [])]))
    if rehearsal.has_value:
        value = outcome.value
        yield Content({"type": "text", "text": value if isinstance(value, str) else compact_json(value)})
    rows = [
        one.exact_row() | ({"approval": states[index]} if index in states else {}) for index, one in enumerate(held)
    ]
    yield Data({"value": outcome.value, "calls": outcome.calls, "run": run, "rehearsed": rows}, text="")


def _describe_decisions(known: Sequence[Approval], now: float, run: str) -> str:
    """Return what became of a question, and what to do next, as a sentence."""
    minutes = round(APPROVAL_SECONDS / 60)
    states = Counter(one.state_at(now) for one in known)
    if states[WAITING]:
        return (
            f"{_count(len(known))} an approval, and there is no decision yet. An administrator can decide on the page"
            f" /approvals of this hub within {minutes} minutes (run {run}). Run this script with the same inputs after"
            " that: it makes each approved call once, and asks for every other one"
        )
    decided = ", ".join(f"{count} {state}" for state, count in states.items())
    return (
        f"{_count(len(known))} an approval: {decided}. Run this script with the same inputs within"
        f" {minutes} minutes: it makes each approved call once, and asks for every other one"
    )


def _count(count: int) -> str:
    return "1 call needs" if count == 1 else f"{count} calls need"


def _as_arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={compact_json(value)}" for name, value in arguments.items())
