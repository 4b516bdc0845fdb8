"""The schedules of the served tools, and the decision what is to do with each of them at a time.

The decision is a function of the schedule, its state and the time, so that all hubs on a store decide alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from patchbay.access.principals import SCHEDULE_IDS, Principal
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.occurrences.timetables import Timetable
from patchbay.protocol.schedules.records import DIED, MISSED, SKIPPED, Run, ScheduleState

ALIVE_SECONDS = 10.0
"""Seconds after its last sign of life within which a run counts as alive."""

MAX_ATTEMPTS = 3
"""Attempts of a run whose processes died, of a tool that may be repeated."""

Key = tuple[str, str]
"""The names of a server and a tool."""


@dataclass(frozen=True)
class Schedule:
    """The schedule of one tool. `max_delay` is in seconds."""

    server: Server
    tool: Descriptor
    timetable: Timetable
    arguments: Mapping[str, Any]
    max_delay: float

    @property
    def key(self) -> Key:
        return self.server.name, self.tool.name

    @property
    def times(self) -> str:
        """The text by which a change of the times is seen."""
        return f"{self.timetable.expression} {self.timetable.zone}"

    @property
    def principal(self) -> Principal:
        """The sender of its calls. Grants name it by its id; without grants it may do everything."""
        return Principal(f"{SCHEDULE_IDS}{'.'.join(self.key)}", name=f"the schedule of {'.'.join(self.key)}")


def list_schedules(served: Mapping[str, Server]) -> dict[Key, Schedule]:
    """Return the schedules of all served tools, by server and tool."""
    found = (_schedule(server, tool) for server in served.values() for tool in server.tools.values())
    return {one.key: one for one in found if one is not None}


def _schedule(server: Server, tool: Descriptor) -> Schedule | None:
    fields = tool.target.get("schedule")
    if not fields:
        return None
    timetable = Timetable(fields["schedule"], fields["timezone"])
    return Schedule(server, tool, timetable, fields["arguments"], fields["max_delay"])


def decide(schedule: Schedule, state: ScheduleState | None, now: float, node: str) -> ScheduleState | None:
    """Return the state that a process has to write now, None if there is nothing to do.

    If the newest run of the new state is a running one of `node`, the process that writes it has to run it.
    """
    if state is None:
        return ScheduleState(schedule.times, now)
    if state.times != schedule.times:
        state = replace(state, times=schedule.times, handled=now)
        return _decide_dead(schedule, state, now, node) or state
    return _decide_dead(schedule, state, now, node) or _decide_due(schedule, state, now, node)


def _decide_dead(schedule: Schedule, state: ScheduleState, now: float, node: str) -> ScheduleState | None:
    """Return the state after a run whose process died: the next attempt, or its end."""
    dead = state.running
    if dead is None or dead.alive_until > now:
        return None
    if schedule.tool.is_repeatable and dead.attempt < MAX_ATTEMPTS:
        return state.with_run(replace(_begin(dead.due, now, node), by=dead.by, attempt=dead.attempt + 1))
    reason = f"the process {dead.node} that ran it ended"
    if schedule.tool.is_repeatable:
        reason += f", as in {dead.attempt - 1} attempts before"
    else:
        reason += "; it is not repeated, because the tool has no idempotentHint"
    return state.with_run(dead.end(now, DIED, reason))


def _decide_due(schedule: Schedule, state: ScheduleState, now: float, node: str) -> ScheduleState | None:
    """Return the state after the newest time of the schedule that needs a run."""
    due = schedule.timetable.newest(now)
    if due <= state.handled:
        return None
    state = replace(state, handled=due)
    run = _begin(due, now, node)
    if now - due > schedule.max_delay:
        late = f"no hub ran at its time; {now - due:.0f} s later is more than max_delay ({schedule.max_delay:g} s)"
        return state.with_run(run.end(now, MISSED, late))
    if state.running is not None:
        return state.with_skipped(run.end(now, SKIPPED, "the run before it had not ended"))
    return state.with_run(run)


def begin_by_hand(schedule: Schedule, state: ScheduleState | None, now: float, node: str, by: str) -> ScheduleState:
    """Return the state with a run that somebody asked for. The caller checks that none is running."""
    state = state or ScheduleState(schedule.times, now)
    return state.with_run(replace(_begin(now, now, node), by=by))


def _begin(due: float, now: float, node: str) -> Run:
    return Run(due, node, now, now + ALIVE_SECONDS)
