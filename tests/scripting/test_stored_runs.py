"""The store of suspended runs: what a look at many costs, a failure while one is stored, and a slow process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from patchbay.access.approvals import APPROVAL_SECONDS, Approvals, AskedCall, CallDigest
from patchbay.access.principals import LOCAL
from patchbay.cid import cid_of
from patchbay.coordination.process_liveness import Heartbeat
from patchbay.errors import StoreAway
from patchbay.scripting.suspended_runs import RUNNING, SUSPENDED, RunHead, SuspendedRuns
from patchbay.scripting.suspension import BudgetLeft, Suspension, WaitingCall
from patchbay.stores.memory import MemoryStore


class Clocked:
    """Suspended runs in memory, whose clock stands at `now`."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.now = self.store.now()
        self.approvals = Approvals(self.store, clock=lambda: self.now)
        self.runs = SuspendedRuns(self.store, b"k" * 32, self.approvals)

    def suspend(self, number: int = 1) -> RunHead:
        """Suspend a run with one call that waits."""
        call = AskedCall(CallDigest("local", "s", "v", "t", "d", cid_of(b"{}")), b"{}")
        at = self.now
        head = RunHead(f"{number:016x}", "local", "s", "v", 0, "", str(number), at, at)
        left = BudgetLeft(1, 1, 1, 1, 1, 1, 1)
        suspension = Suspension(LOCAL, "x", {}, 1, "", [], [WaitingCall(1, "m.f", 1, {})], left, {}, "1")
        return self.runs.suspend(head, suspension, b"snapshot", [call], None)


@pytest.fixture
def clocked() -> Clocked:
    return Clocked()


def test_the_states_of_many_runs_are_read_in_one_look(clocked: Clocked, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = [clocked.suspend(number) for number in range(20)]
    looks: list[int] = []
    read = Approvals._read

    def counted(approvals: Approvals) -> None:
        looks.append(1)
        read(approvals)

    monkeypatch.setattr(Approvals, "_read", counted)
    assert clocked.runs.states_of(heads) == [SUSPENDED] * 20
    assert len(looks) == 1


def test_a_run_that_cannot_be_stored_leaves_no_question(clocked: Clocked, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = clocked.store.journal.append_all

    def fail(entries: Sequence[Any], *terms: Any) -> Any:
        if entries[0][0].startswith("script-run/"):
            raise StoreAway("the store is away")
        return whole(entries, *terms)

    monkeypatch.setattr(clocked.store.journal, "append_all", fail)
    with pytest.raises(StoreAway):
        clocked.suspend()
    assert clocked.approvals.count_waiting() == 0


def test_a_run_of_a_live_process_has_not_expired_after_its_time(clocked: Clocked) -> None:
    head = clocked.suspend()
    clocked.approvals.decide_all(head.question, {f"{head.question}.1"}, "local")
    heartbeat = Heartbeat(clocked.store)
    heartbeat.begin()
    try:
        assert clocked.runs.claim(head.id, heartbeat.liveness.process) is not None
        clocked.now += 2 * APPROVAL_SECONDS + 1
        assert clocked.runs.state_of(head) == RUNNING
    finally:
        heartbeat.end()


def test_approvals_are_found_by_their_question_until_their_time_is_over(clocked: Clocked) -> None:
    head = clocked.suspend()
    assert [one.id for one in clocked.approvals.find_questions([head.question, "other"])[0]] == [f"{head.question}.1"]
    clocked.now += 3 * APPROVAL_SECONDS
    assert clocked.approvals.find_question(head.question) == []
