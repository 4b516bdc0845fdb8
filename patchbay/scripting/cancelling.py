"""Cancels a run that is suspended, or that a process goes on with: its owner or an operator ends it, at any node.

The end is an entry of the journal that is written only behind the newest one, as a claim is. So of a cancellation and
the process that goes on after an approval, one is first. A process that goes on loses its claim by it: it makes no
further call.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from patchbay.activation import Call, Events
from patchbay.errors import PatchbayError, StaleUpdate, ToolFailed
from patchbay.scripting.following import with_calls
from patchbay.scripting.suspended.run_records import CANCELLED, EXPIRED, KEPT_SECONDS, Outcome, RunState
from patchbay.scripting.suspended.suspended_runs import SuspendedRuns
from patchbay.topics import SCRIPT_RUN, SCRIPT_RUNS


def cancel_run(runs: SuspendedRuns, id: str, by: str, is_by_caller: bool = False) -> bool:
    """Cancel a run, and withdraw the approvals that it did not use; return False for one that has ended already.

    `by` is the id of the principal that cancels it, which the outcome names. `is_by_caller` says that the call of the
    script itself was cancelled: the same call then begins a new run. Also False for an unknown run.
    """
    topic = SCRIPT_RUN + id
    while (state := runs.read(id)) is not None and state.head is not None and state.outcome is None:
        if runs.state_of(state.head) == EXPIRED:
            return False
        head = replace(state.head, state=CANCELLED, is_fetched=is_by_caller)
        entry, index = runs.ended_entries(head, _outcome(runs, state, by))
        try:
            seq = runs.store.journal.append_all([(topic, entry, KEPT_SECONDS), index], {topic: state.seq})[0]
        except StaleUpdate:
            continue  # a process goes on with it, or it has ended
        runs.store.journal.remove(topic, seq)
        runs.approvals.withdraw(id)
        runs.store.bus.publish(SCRIPT_RUNS, id.encode())
        runs.drop_oldest_outcomes(head.principal)
        return True
    return False


def end_with_call(id: str, runs: SuspendedRuns, call: Call, events: Events) -> Events:
    """Yield the events for the caller of a run; cancel the run when that caller cancels the call.

    A connection that ends cancels nothing: the run goes on without its caller.
    """
    try:
        yield from events
    except GeneratorExit:
        if call.cancelled.is_by_caller:
            with suppress(PatchbayError):
                cancel_run(runs, id, call.principal, is_by_caller=True)
        raise


def _outcome(runs: SuspendedRuns, state: RunState, by: str) -> Outcome:
    """Return the outcome of a run that is cancelled now: what it printed, and the calls up to its last suspension."""
    printed, calls = "", []
    with suppress(ToolFailed):  # a run whose record was changed can be cancelled too
        before, _ = runs.seals.open(state)
        printed, calls = before.printed, before.calls
    later = sum(len(one) for one in state.answers.values())
    since = f"; {later} calls that began after its last approval are in its records" if later else ""
    return Outcome(printed, None, calls, with_calls(f"the run was cancelled by {by}{since}", calls))
