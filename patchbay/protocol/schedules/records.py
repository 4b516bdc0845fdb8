"""The runs of schedules in the journal: one record for each scheduled tool, which all hubs on a store share.

A run is claimed by a write behind the entry that its writer saw, so that one process alone claims it. All times are
those of the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from patchbay.coordination.records import Records
from patchbay.store import Store
from patchbay.topics import SCHEDULES

MAX_RUNS = 20
"""Runs of a schedule that are kept."""

MAX_MESSAGE_CHARACTERS = 500
"""Characters of a result that are kept with its run; the record of the call has all of it."""

RUNNING, MISSED, SKIPPED, DIED = "running", "missed", "skipped", "died"
"""Outcomes beside those of the records of calls (ok, tool_error, error, timeout, cancelled)."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run. `due` is the time of the schedule, for a run by hand that of the request, which `by` made.

    `node` is the process that runs it, which renews `alive_until`; a process that does not is dead. `attempt` counts
    from 1. `ended` is None while it runs; `message` is the beginning of its result, or the reason of its outcome.
    """

    due: float
    node: str
    begun: float
    alive_until: float
    by: str = ""
    attempt: int = 1
    ended: float | None = None
    outcome: str = RUNNING
    message: str = ""

    def is_same(self, other: Run) -> bool:
        """Whether the two records are of the same attempt of the same run."""
        return (self.due, self.node, self.begun, self.attempt) == (other.due, other.node, other.begun, other.attempt)

    def end(self, at: float, outcome: str, message: str) -> Run:
        """Return this run with its end."""
        return replace(self, ended=at, outcome=outcome, message=message[:MAX_MESSAGE_CHARACTERS])


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """What happened to a schedule. Times up to `handled` need no run any more; `runs` are its last runs, newest first.

    `times` is its expression and zone: after a change of them, only later times count.
    """

    times: str
    handled: float
    runs: tuple[Run, ...] = ()

    @property
    def running(self) -> Run | None:
        """The run that has not ended; None without one."""
        return self.runs[0] if self.runs and self.runs[0].ended is None else None

    def with_run(self, run: Run) -> ScheduleState:
        """Return this state with a new run, or with the new state of its newest run."""
        older = self.runs[1:] if self.runs and self.runs[0].due == run.due and self.runs[0].by == run.by else self.runs
        return replace(self, runs=(run, *older)[:MAX_RUNS])

    def with_changed(self, run: Run, changed: Run) -> ScheduleState | None:
        """Return this state with a run replaced, None if it is not there any more."""
        if not any(one.is_same(run) for one in self.runs):
            return None
        return replace(self, runs=tuple(changed if one.is_same(run) else one for one in self.runs))

    def with_skipped(self, run: Run) -> ScheduleState:
        """Return this state with a run that was skipped behind the running one, which stays the newest."""
        return replace(self, runs=(self.runs[0], run, *self.runs[1:])[:MAX_RUNS])


class ScheduleRecords:
    """The states of schedules in a store. Safe to use from many threads."""

    def __init__(self, store: Store) -> None:
        self._records = Records(store.journal, ScheduleState)

    def find(self, server: str, tool: str) -> ScheduleState | None:
        """Return the state of a schedule; None for one that no hub has seen."""
        return self._records.load(_topic(server, tool))[0]

    def update(
        self, server: str, tool: str, change: Callable[[ScheduleState | None], ScheduleState | None]
    ) -> ScheduleState | None:
        """Replace a state by what `change` makes of it; return that, None if `change` did.

        `change` may run several times, each time with the present state.
        """
        made: list[ScheduleState | None] = [None]

        def noted(old: ScheduleState | None) -> ScheduleState | None:
            made[0] = change(old)
            return made[0]

        self._records.update(_topic(server, tool), noted)
        return made[0]


def _topic(server: str, tool: str) -> str:
    return f"{SCHEDULES}{server}/{tool}"
