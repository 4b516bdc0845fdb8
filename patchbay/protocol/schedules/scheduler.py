"""Runs schedules: one thread in each process of a hub looks at them at their times, and claims the runs.

Every process of all hubs on a store looks, by the time of the store, and one of them alone claims a run: so a process
that was killed, or a machine whose clock is wrong, makes no run late or twice. A process that runs a call renews its
claim; one that cannot do that cancels the call before the claim ends.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from patchbay.activation import CancelFlag
from patchbay.background import run_in_background
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.servers.server import Server
from patchbay.coordination.mailbox_loop import MailboxLoop
from patchbay.coordination.nodes import own_name
from patchbay.errors import InvalidParams, PatchbayError, ReadOnly, StaleUpdate
from patchbay.protocol.schedules.calling import ScheduledCalls
from patchbay.protocol.schedules.records import Run, ScheduleRecords, ScheduleState
from patchbay.protocol.schedules.schedules import (
    ALIVE_SECONDS,
    Key,
    Schedule,
    begin_by_hand,
    decide,
    list_schedules,
)
from patchbay.store import Subscription
from patchbay.topics import BUILT, ENDING, SCHEDULES

log = logging.getLogger(__name__)

IDLE_SECONDS = 30.0
"""Seconds between two looks of a process without schedules; a change of servers wakes it at once."""

RETRY_SECONDS = 1.0
"""Seconds until the next look after a failure of the store, or while MAX_CALLS run."""

END_SECONDS = 5.0
"""Seconds that cancelled calls have to end when the hub stops."""

MAX_CALLS = 16
"""Scheduled calls at a time in one process; other processes may claim the next ones meanwhile."""


@dataclass(slots=True)
class _Claimed:
    """A run of this process. `safe_until` is the `time.monotonic()` time at which another one may count it as dead."""

    schedule: Schedule
    run: Run
    flag: CancelFlag
    safe_until: float
    is_over: threading.Event = field(default_factory=threading.Event)


class Scheduler:
    """The schedules of one process. Safe to use from many threads."""

    def __init__(self, catalogue: Catalogue, calls: ScheduledCalls) -> None:
        self._catalogue = catalogue
        self._store = catalogue.store
        self._calls = calls
        self.records = ScheduleRecords(catalogue.store)
        self._node = own_name()
        self._listed: tuple[Mapping[str, Server], tuple[Schedule, ...]] = {}, ()
        self._served: Mapping[str, Server] = {}
        self._schedules: dict[Key, Schedule] = {}
        self._looks: dict[Key, float] = {}
        self._claimed: dict[Key, _Claimed] = {}
        self._lock = threading.Lock()
        self._loop = MailboxLoop(
            *("schedules", self._store.bus, [BUILT, SCHEDULES, ENDING], self._run, "schedules wait for a moment"),
            size=64,
            retry_seconds=RETRY_SECONDS,
        )

    def start(self) -> None:
        """Begin to run schedules; a read-only hub runs none."""
        if not self._catalogue.readonly:
            self._loop.start()

    def close(self) -> None:
        """Cancel the running calls, and leave their runs to another process or to the next start."""
        self._loop.stop()
        for one in self._running():
            one.flag.set("the hub is stopping")
        self._loop.join(RETRY_SECONDS * 2)
        # A tool inside the hub may not look at the flag: its thread ends with the process.
        end = time.monotonic() + END_SECONDS
        for one in self._running():
            one.is_over.wait(max(0.0, end - time.monotonic()))

    def now(self) -> float:
        """Return the time that all schedules go by: Unix time in seconds."""
        return self._store.now()

    def all(self) -> tuple[Schedule, ...]:
        """Return the schedules of the served tools, by server and tool.

        Every page counts the failed ones, so that the tools are read once for each state of the catalogue.
        """
        served, listed = self._listed
        if served is not self._catalogue.served:
            served = self._catalogue.served
            listed = tuple(one for _, one in sorted(list_schedules(served).items()))
            self._listed = served, listed
        return listed

    def run_now(self, server: str, tool: str, by: str) -> Run:
        """Begin a run by hand, and return it. `by` is who asked for it.

        Raises InvalidParams for a tool without a schedule, StaleUpdate while a run has not ended or too many run here,
        ReadOnly.
        """
        schedule = list_schedules(self._catalogue.served).get((server, tool))
        if schedule is None:
            raise InvalidParams(f"{server}.{tool} has no schedule; the page /schedules lists the tools with one")
        if self._catalogue.readonly:
            raise ReadOnly("this hub was booted read-only: it runs no schedules")
        if len(self._claimed) >= MAX_CALLS:
            raise StaleUpdate(f"{MAX_CALLS} scheduled calls run in this process; try again when one has ended")

        def begun(old: ScheduleState | None) -> ScheduleState:
            if old is not None and old.running is not None:
                raise StaleUpdate(f"{server}.{tool} runs now, on {old.running.node}; try again when it has ended")
            return begin_by_hand(schedule, old, self._store.now(), self._node, by)

        state = self.records.update(server, tool, begun)
        assert state is not None and state.running is not None
        self._submit(schedule, state.running)
        return state.running

    def _run(self, mailbox: Subscription) -> None:
        try:
            pause = self._look()
        except PatchbayError as problem:
            log.warning("schedules wait for a moment: %s", problem)
            pause = RETRY_SECONDS
        mailbox.wait(pause)
        while mailbox.get(0) is not None:
            pass

    def _look(self) -> float:
        """Do what is due now; return the seconds until the next look."""
        self._renew()
        self._read_catalogue()
        if not self._looks or self._catalogue.hub.left() != math.inf:
            return IDLE_SECONDS if not self._claimed else RETRY_SECONDS
        now = self._store.now()
        for key, at in list(self._looks.items()):
            if at <= now:
                self._looks[key] = self._look_at(self._schedules[key], now)
        soonest = min(self._looks.values()) - self._store.now()
        longest = ALIVE_SECONDS / 3 if self._claimed else IDLE_SECONDS
        return min(max(0.0, soonest), longest)

    def _read_catalogue(self) -> None:
        """Take over the schedules of the served tools, if the catalogue has changed; look at new ones at once."""
        served = self._catalogue.served
        if served is self._served:
            return
        fresh = {name: server for name, server in served.items() if self._served.get(name) is not server}
        before, added = self._schedules, list_schedules(fresh)
        same = {key: one for key, one in before.items() if key[0] in served and key[0] not in fresh}
        self._schedules, self._served = same | added, served
        known = {key for key, one in self._schedules.items() if key in before and before[key].times == one.times}
        self._looks = {key: self._looks[key] if key in known else 0.0 for key in self._schedules}

    def _look_at(self, schedule: Schedule, now: float) -> float:
        """Do what is due for one schedule; return the time of the store for the next look at it."""
        if len(self._claimed) >= MAX_CALLS:
            return now + RETRY_SECONDS
        server, tool = schedule.key
        while (
            state := self.records.update(server, tool, lambda old: decide(schedule, old, now, self._node))
        ) is not None:
            if state.running is not None and state.running.begun == now and state.running.node == self._node:
                self._submit(schedule, state.running)
        found = self.records.find(server, tool)
        following = schedule.timetable.next(now)
        if found is not None and found.running is not None and schedule.key not in self._claimed:
            # A second later than its end, so that its own process comes first.
            return min(following, found.running.alive_until + RETRY_SECONDS)
        return following

    def _submit(self, schedule: Schedule, run: Run) -> None:
        claimed = _Claimed(schedule, run, CancelFlag(), time.monotonic() + ALIVE_SECONDS)
        with self._lock:
            self._claimed[schedule.key] = claimed
        name = f"schedule of {'.'.join(schedule.key)}"
        run_in_background(name, self._call, claimed)
        self._store.bus.publish_here(SCHEDULES)

    def _renew(self) -> None:
        """Renew the claims of the running calls, and cancel a call whose claim is not renewed or not there any more."""
        for claimed in self._running():
            left = claimed.safe_until - time.monotonic()
            if left > ALIVE_SECONDS * 2 / 3:
                continue
            begun = time.monotonic()
            try:
                is_renewed = self._change(claimed, replace(claimed.run, alive_until=self._store.now() + ALIVE_SECONDS))
            except PatchbayError:
                if left < RETRY_SECONDS * 3:
                    claimed.flag.set("the store was away for too long")
                raise
            if not is_renewed:
                claimed.flag.set("another process has taken the run over")
            claimed.safe_until = begun + ALIVE_SECONDS

    def _running(self) -> list[_Claimed]:
        with self._lock:
            return list(self._claimed.values())

    def _call(self, claimed: _Claimed) -> None:
        """Call the tool of a claimed run, on a thread of its own, and store its end."""
        try:
            outcome, message = self._calls.call(claimed.schedule, claimed.flag)
            now = self._store.now()
            if outcome != "ok" and (self._loop.ending.is_set() or self._catalogue.hub.over()):
                # The hub stopped it: another process, or the next start, decides about it at once.
                self._change(claimed, replace(claimed.run, alive_until=now))
            else:
                self._change(claimed, claimed.run.end(now, outcome, message))
        except PatchbayError as problem:
            log.warning("the end of a run of %s is not stored: %s", ".".join(claimed.schedule.key), problem)
        finally:
            with self._lock:
                self._claimed.pop(claimed.schedule.key, None)
            claimed.is_over.set()
            self._store.bus.publish_here(SCHEDULES)

    def _change(self, claimed: _Claimed, changed: Run) -> bool:
        """Store a new state of a run; return False if the run is not there any more."""
        server, tool = claimed.schedule.key

        def replaced(old: ScheduleState | None) -> ScheduleState | None:
            return old.with_changed(claimed.run, changed) if old is not None else None

        return self.records.update(server, tool, replaced) is not None
