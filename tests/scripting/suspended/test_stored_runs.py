"""The store of suspended runs: what a look at many costs, a failure while one is stored, and a slow process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from patchbay.access.approvals import APPROVAL_SECONDS, Approvals, AskedCall, CallDigest
from patchbay.access.principals import LOCAL
from patchbay.cid import cid_of
from patchbay.coordination.process_liveness import Heartbeat
from patchbay.errors import StoreAway, ToolFailed
from patchbay.scripting.cancelling import cancel_run
from patchbay.scripting.suspended import suspended_runs
from patchbay.scripting.suspended.run_records import RUNNING, SUSPENDED, Outcome, RunHead
from patchbay.scripting.suspended.suspended_runs import FETCH_SECONDS, SuspendedRuns
from patchbay.scripting.suspended.suspension import BudgetLeft, Suspension, WaitingCall
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
        return self._suspend(number, "local", WaitingCall(1, "m.f", 1, {}), [call])

    def suspend_asking(self, number: int, principal: str = "ann") -> RunHead:
        """Suspend a run whose one call waits for an answer."""
        question = {"method": "elicitation/create", "params": {"message": "Who?"}}
        return self._suspend(number, principal, WaitingCall(1, "m.f", 1, {}, questions={"q": question}), [])

    def _suspend(self, number: int, principal: str, waiting: WaitingCall, calls: list[AskedCall]) -> RunHead:
        head = RunHead(f"{number:016x}", principal, "s", "v", 0, "", str(number), self.now, self.now)
        left = BudgetLeft(1, 1, 1, 1, 1, 1, 1)
        suspension = Suspension(LOCAL, "x", {}, 1, "", [], [waiting], left, {}, "1")
        return self.runs.suspend(head, suspension, b"snapshot", calls, None)

    def end(self, head: RunHead, value: str = "") -> None:
        """Answer the question of a run, and let it end with a value."""
        assert self.runs.answer(head, {"1": {"q": {"action": "accept"}}})
        claim = self.runs.claim(head.id, "process")
        assert claim is not None
        claim.end(Outcome("", value, []))


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


def test_a_principal_begins_a_limited_number_of_runs_that_wait_in_ten_minutes(
    clocked: Clocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspended_runs, "MAX_ASKED", 3)
    for number in range(3):
        clocked.end(clocked.suspend_asking(number))
    with pytest.raises(ToolFailed, match="3 of your scripts waited for a person in the last 10 minutes"):
        clocked.suspend_asking(3)
    clocked.suspend_asking(4, "ben")
    clocked.now += APPROVAL_SECONDS
    clocked.suspend_asking(5)


def test_the_values_of_the_last_ten_minutes_have_a_limit_and_older_ones_are_dropped_oldest_first(
    clocked: Clocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspended_runs, "MAX_KEPT_BYTES", 2500)
    first = [clocked.suspend_asking(number) for number in range(3)]
    for one in first:
        clocked.end(one, "x" * 1000)
        clocked.now += 1
    with pytest.raises(ToolFailed, match="the values of your scripts that waited for a person have more than"):
        clocked.suspend_asking(3)
    clocked.suspend_asking(4, "ben")
    kept = [clocked.runs.read(one.id) for one in first]
    assert all(one is not None for one in kept), "their callers may still get them"
    clocked.now += FETCH_SECONDS
    clocked.end(clocked.suspend_asking(5), "x" * 1000)
    assert clocked.runs.read(first[0].id) is None
    found = [clocked.runs.read(one.id) for one in first[1:]]
    assert [clocked.runs.seals.open_outcome(one).value for one in found if one is not None] == ["x" * 1000] * 2
    head = clocked.runs.heads.get(first[0].id)
    assert head is not None and (head.state, head.size) == ("done", 0), "its page is still there"
    clocked.now += FETCH_SECONDS
    assert cancel_run(clocked.runs, clocked.suspend_asking(6).id, "ann")
    assert clocked.runs.read(first[1].id) is None and clocked.runs.read(first[2].id) is not None


def test_a_look_for_the_run_of_a_call_orders_the_runs_of_its_principal_alone(
    clocked: Clocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocked.suspend_asking(1, "ben")
    head = clocked.suspend_asking(2)
    monkeypatch.setattr(clocked.runs.heads, "all", lambda: pytest.fail("all runs were ordered"))
    assert [one.id for one in clocked.runs.heads.of("ann")] == [head.id]
    found = clocked.runs.find("ann", "s", "2")
    assert found is not None and found.id == head.id and clocked.runs.find("ann", "s", "1") is None
    clocked.now = head.until + 10 * APPROVAL_SECONDS
    assert clocked.runs.heads.of("ann") == [] == clocked.runs.heads.of("ben"), "they are forgotten"
