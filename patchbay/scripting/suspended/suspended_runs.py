"""The suspended runs of scripts: in the journal, sealed, until one process of all hubs on the store goes on with them.

A run that waits for a person holds no thread and no process. Its entries are `script-run/<id>` in the journal
(`run_records.py`), and every process folds them to the same state. Each entry is written only behind the one that its
writer saw, so that of two processes one claims a run, and a process that lost its claim makes no further call. A call
that began and has no answer may have been made: it is not made again. A process finds the runs that it has not seen by
their heads (`run_heads.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from patchbay.access.approvals import APPROVAL_SECONDS, MAX_ASKED, WAITING, Approval, Approvals, AskedCall
from patchbay.coordination.process_liveness import ProcessLiveness
from patchbay.errors import PatchbayError, StaleUpdate, ToolFailed
from patchbay.jsonrpc import dump_json
from patchbay.processes.limits import MIB
from patchbay.scripting.suspended.run_heads import RunHeads, index_entry
from patchbay.scripting.suspended.run_records import (
    DECIDED,
    DONE,
    EXPIRED,
    FAILED,
    KEPT_SECONDS,
    PAGE,
    RUNNING,
    SUSPENDED,
    SUSPENDED_SECONDS,
    Kind,
    Outcome,
    RunHead,
    RunState,
    make_entry,
)
from patchbay.scripting.suspended.run_seals import RunSeals
from patchbay.scripting.suspended.suspension import CannotGoOn, Suspension
from patchbay.scripting.suspended.tool_questions import (
    Account,
    Answers,
    accounts_of,
    decline_calls,
    merge_answers,
    open_questions,
    read_accounts,
    write_accounts,
)
from patchbay.store import Store
from patchbay.topics import SCRIPT_RUN, SCRIPT_RUNS

MAX_SNAPSHOT_BYTES = 4 * MIB
"""Bytes of the snapshot of one run, with what the hub knows of it."""

MAX_SUSPENDED = 100
"""Runs of one principal that are suspended at the same time."""

MAX_SUSPENDED_BYTES = 64 * MIB
"""Bytes of all suspended runs of one principal."""

MAX_KEPT_BYTES = 64 * MIB
"""Bytes of the outcomes of one principal: of those of the last FETCH_SECONDS, and as much again of older ones."""

MAX_OUTCOME_BYTES = MIB
"""Bytes of an outcome that is kept; of a larger one, only that it was too large."""

MAX_LOGGED_BYTES = MIB
"""Bytes of the result of a call that is kept until its run ends, for a process that goes on after this one."""

FETCH_SECONDS = APPROVAL_SECONDS
"""Seconds after the end of a run in which the same call of `run_script` gets its outcome, once."""

MAX_ANSWER_BYTES = MIB
"""Bytes of the answers to the questions of tools for which a run waits at the same time."""

FindAccount = Callable[[str, str], str]


class LostClaim(CannotGoOn):
    """Another process goes on with this run, because this one seemed lost."""


class _Reply(NamedTuple):
    """What a caller replied: all answers now, whether all questions have one, and the accounts still needed."""

    answers: Answers
    is_answered: bool
    accounts: str


FindChanges = Callable[[RunState, RunHead, Answers], _Reply | None]
"""Returns what a reply changes, from the state, the head and the known answers of a run; None for nothing."""


class SuspendedRuns:
    """The suspended runs of one hub, in every process. `key` is the secret key of the hub. Thread-safe.

    `find_account` returns the id of the account of a principal at the server with a key, "" before it is connected.
    """

    def __init__(
        self,
        store: Store,
        key: bytes,
        approvals: Approvals,
        find_account: FindAccount = lambda principal, key: "",
    ) -> None:
        self.store = store
        self.approvals = approvals
        self._find_account = find_account
        self._journal = store.journal
        self.seals = RunSeals(key)
        self._liveness = ProcessLiveness(store)
        self.heads = RunHeads(store.journal, approvals.now)

    def read(self, id: str) -> RunState | None:
        """Return the state of a run; None for an unknown one, or one that is no longer kept."""
        state, topic = RunState(), SCRIPT_RUN + id
        while entries := self._journal.read(topic, state.seq, PAGE):
            for entry in entries:
                state.apply(entry)
        return state if state.head is not None else None

    def find(self, principal: str, server: str, script: str) -> RunHead | None:
        """Return the run that the same call of `run_script` goes on with; None if it begins a new one.

        That is one that is suspended or runs, or one that has ended lately and whose outcome its caller did not get.
        """
        for one in self.heads.of(principal):
            if (one.server, one.script) != (server, script):
                continue
            if self.is_kept_for_caller(one) or not (one.ended or one.is_fetched or self.state_of(one) == EXPIRED):
                return one
        return None

    def is_kept_for_caller(self, head: RunHead) -> bool:
        """Whether a run has ended lately, and the same call gets its outcome, which its caller did not get yet."""
        return bool(head.ended) and not head.is_fetched and head.ended > self.approvals.now() - FETCH_SECONDS

    def state_of(self, head: RunHead) -> str:
        """Return the state of a run now; one of the constants above."""
        return self.states_of([head])[0]

    def states_of(self, heads: Sequence[RunHead]) -> list[str]:
        """Return the states of runs now, from one look at the approvals."""
        questions = self.approvals.find_questions([one.question for one in heads])
        return [self._state(one, asked) for one, asked in zip(heads, questions, strict=True)]

    def _state(self, head: RunHead, asked: Sequence[Approval]) -> str:
        if head.ended:
            return head.state
        now = self.approvals.now()
        if head.waits_for_answers(now) or any(one.state_at(now) == WAITING for one in asked):
            return SUSPENDED
        if self.lacks_account(head):
            return SUSPENDED if now < head.until else EXPIRED
        if head.question and (not asked or any(one.decided is None for one in asked)):
            return EXPIRED
        if head.asks and not head.is_answered:
            return EXPIRED
        state = self.read(head.id)
        owner = state.owner if state is not None else ""
        if owner and self._liveness.is_alive(owner):
            return RUNNING
        if head.accounts and not owner and now >= head.until:
            return EXPIRED  # also when the account is connected later: the same call may have begun another run by then
        return EXPIRED if state is None or now > head.until + APPROVAL_SECONDS else DECIDED

    def lacks_account(self, head: RunHead) -> bool:
        """Whether a run waits for an account that its caller has not connected. One that goes on waits for none."""
        return bool(self.lacking_accounts(head))

    def lacking_accounts(self, head: RunHead) -> set[Account]:
        """Return the accounts that a run waits for, and that its caller has neither connected nor declined."""
        needed = read_accounts(head.accounts)
        lacking = {(key, old) for key, old in needed if self._find_account(head.principal, key) in ("", old)}
        state = self.read(head.id) if lacking else None
        return set() if state is not None and state.owner else lacking

    def suspend(
        self,
        head: RunHead,
        suspension: Suspension,
        snapshot: bytes,
        calls: Sequence[AskedCall],
        claim: Claim | None,
    ) -> RunHead:
        """Ask for the approval of the waiting calls by one question, and store the run; return its new head.

        `calls` are those of `suspension.waiting` that need an approval, in order; the tools of the others ask
        questions, which the caller answers (`answer`). `claim` is that of a run that was suspended before. Raises
        ToolFailed when the run cannot be suspended, and then asks nothing; LostClaim.
        """
        size = len(suspension.to_bytes(snapshot))
        if size > MAX_SNAPSHOT_BYTES:
            most = f"{MAX_SNAPSHOT_BYTES // MIB} MiB (limit snapshot_bytes)"
            raise ToolFailed(f"the script has too many values to wait for a person: more than {most}")
        if claim is None:
            self._check_room(head.principal, size)
        asked = self.approvals.ask(head.id, calls) if calls else []
        ids = iter(asked)
        waiting = [one if one.questions else replace(one, approval=next(ids).id) for one in suspension.waiting]
        data = replace(suspension, waiting=waiting).to_bytes(snapshot)
        question = asked[0].question if asked else ""
        until = asked[0].expires if asked else self.approvals.now() + APPROVAL_SECONDS
        asks = sum(bool(one.questions) and one.account is None for one in waiting)
        head = replace(head, question=question, until=until, size=size, number=head.number + 1)
        head = replace(head, asks=asks, is_answered=False, accounts=accounts_of(waiting))
        entry = make_entry(Kind.SUSPENDED, asdict(head), self.seals.seal_snapshot(head, data))
        topic = SCRIPT_RUN + head.id
        try:
            if claim is not None:
                self._journal.remove(topic, claim.write(entry, SUSPENDED_SECONDS, index_entry(head)))
            else:
                self._journal.append_all([(topic, entry, SUSPENDED_SECONDS), index_entry(head)], {topic: 0})
        except PatchbayError:
            # Nothing can go on with these calls: no page shall ask about them.
            with suppress(PatchbayError):
                self.approvals.decide_all(question, (), head.principal)
            raise
        self.store.bus.publish(SCRIPT_RUNS, head.id.encode())
        return head

    def answer(self, head: RunHead, answers: Answers) -> bool:
        """Store the answers to questions of tools for which a run waits; the first one to each question counts.

        The run goes on once each question has one. Returns False if the run waits for none of these any more. Raises
        ToolFailed for more than MAX_ANSWER_BYTES.
        """

        def find_changes(state: RunState, now: RunHead, known: Answers) -> _Reply | None:
            if not now.waits_for_answers(self.approvals.now()):
                return None
            given = merge_answers(known, answers)
            if given == known:
                return None
            is_answered = not open_questions(self.seals.open(state)[0], given)
            return _Reply(given, is_answered=is_answered, accounts=now.accounts)

        return self._reply(head, find_changes)

    def decline(self, head: RunHead, declined: Collection[Account]) -> bool:
        """Note that the caller of a run does not connect these accounts: the calls that need one of them fail.

        Returns False if the run waits for none of these any more. Raises ToolFailed.
        """

        def find_changes(state: RunState, now: RunHead, known: Answers) -> _Reply | None:
            needed = read_accounts(now.accounts)
            left = [one for one in needed if one not in declined]
            if left == needed or state.owner or self.approvals.now() >= now.until:
                return None
            given = {**known, **decline_calls(self.seals.open(state)[0], declined)}
            return _Reply(given, is_answered=now.is_answered, accounts=write_accounts(left))

        return self._reply(head, find_changes)

    def _reply(self, head: RunHead, find_changes: FindChanges) -> bool:
        """Store what a caller replies to what a run waits for, beside earlier replies; another one may come meanwhile.

        `find_changes` returns None where the run does not wait for it any more; this returns False then.
        """
        topic = SCRIPT_RUN + head.id
        while True:
            state = self.read(head.id)
            now = state.head if state is not None else None
            if state is None or now is None or now.number != head.number:
                return False
            reply = find_changes(state, now, self.seals.open_answers(state))
            if reply is None:
                return False
            data = dump_json(reply.answers)
            if len(data) > MAX_ANSWER_BYTES:
                raise ToolFailed(
                    f"the answers have {len(data)} bytes; at most {MAX_ANSWER_BYTES} are kept for a script"
                )
            changes: dict[str, Any] = {"is_answered": reply.is_answered, "accounts": reply.accounts}
            sealed = self.seals.seal_answers(now, data)
            entry = make_entry(Kind.REPLIED, {"number": now.number, **changes}, sealed)
            with suppress(StaleUpdate):  # another entry was written meanwhile: the run is looked at again
                entries = [(topic, entry, SUSPENDED_SECONDS), index_entry(replace(now, **changes))]
                self._journal.append_all(entries, {topic: state.seq})
                self.store.bus.publish(SCRIPT_RUNS, now.id.encode())
                return True

    def claim(self, id: str, process: str) -> Claim | None:
        """Claim a run that waits for no person, for one process; None if it cannot go on now, or another one has it."""
        state = self.read(id)
        if state is None or state.head is None or state.outcome is not None or self.state_of(state.head) != DECIDED:
            return None
        claimed = Claim(self, state.head, state, process)
        try:
            claimed.write(make_entry(Kind.CLAIMED, {"owner": process}), SUSPENDED_SECONDS)
        except LostClaim:
            return None
        return claimed

    def mark_fetched(self, id: str) -> bool:
        """Note that the caller of a run gets its outcome now; False if another request got it before."""
        state = self.read(id)
        if state is None or state.head is None or state.head.is_fetched:
            return False
        head = replace(state.head, is_fetched=True)
        entries = [(SCRIPT_RUN + id, Kind.FETCHED, KEPT_SECONDS), index_entry(head)]
        try:
            self._journal.append_all(entries, {SCRIPT_RUN + id: state.seq})
        except StaleUpdate:
            return False
        return True

    def ended_entries(self, head: RunHead, outcome: Outcome) -> tuple[bytes, tuple[str, bytes, float]]:
        """Return the entry of the end of a run, and that of the index."""
        data = dump_json(asdict(outcome))
        if len(data) > MAX_OUTCOME_BYTES:
            sentence = f"the value of the script has {len(data)} bytes, and no caller waited for it: it was not kept"
            data = dump_json(asdict(Outcome("", None, outcome.calls, sentence)))
            head = replace(head, state=FAILED)
        head = replace(head, ended=self.approvals.now(), size=len(data))
        return make_entry(Kind.ENDED, asdict(head), self.seals.seal_outcome(head, data)), index_entry(head)

    def _check_room(self, principal: str, size: int) -> None:
        """Raise ToolFailed if a principal may not have a further suspended run of this size."""
        own, now = self.heads.of(principal), self.approvals.now()
        not_ended = [one for one in own if not one.ended]
        states = self.states_of(not_ended)
        sizes = [one.size for one, state in zip(not_ended, states, strict=True) if state != EXPIRED]
        if len(sizes) >= MAX_SUSPENDED or sum(sizes) + size > MAX_SUSPENDED_BYTES:
            raise ToolFailed(f"{len(sizes)} of your scripts wait for a person already (limit suspended_runs)")
        minutes = round(APPROVAL_SECONDS / 60)
        if (begun := sum(one.began > now - APPROVAL_SECONDS for one in own)) >= MAX_ASKED:
            raise ToolFailed(
                f"{begun} of your scripts waited for a person in the last {minutes} minutes (limit suspended_runs):"
                " run this one later"
            )
        if sum(one.size for one in own if one.ended > now - FETCH_SECONDS) >= MAX_KEPT_BYTES:
            raise ToolFailed(
                f"the values of your scripts that waited for a person have more than {MAX_KEPT_BYTES // MIB} MiB in the"
                f" last {minutes} minutes (limit suspended_runs): run this one later"
            )

    def drop_oldest_outcomes(self, principal: str) -> None:
        """Remove the oldest outcomes of a principal beyond MAX_KEPT_BYTES. Those of the last FETCH_SECONDS stay."""
        before, size = self.approvals.now() - FETCH_SECONDS, 0
        for one in sorted(self.heads.of(principal), key=lambda one: one.ended, reverse=True):
            if not one.ended or one.ended > before:
                continue
            size += one.size
            if one.size and size > MAX_KEPT_BYTES:
                topic = SCRIPT_RUN + one.id
                with suppress(PatchbayError):  # the run that ends next tries again
                    self._journal.append_all([index_entry(replace(one, size=0))], {})
                    self._journal.remove(topic, self._journal.last(topic) + 1)


class Claim:
    """A run that this process goes on with. It alone writes entries of the run, until another process claims it."""

    def __init__(self, runs: SuspendedRuns, head: RunHead, state: RunState, process: str) -> None:
        self.head = head
        self.state = state
        self.process = process
        self.approvals = runs.approvals
        self._runs = runs
        self._seq = state.seq
        self._has_ended = False
        self._known = {call: list(answers) for call, answers in state.answers.items()}
        self._lock = threading.Lock()

    def write(self, data: bytes, keep: float, *more: tuple[str, bytes, float]) -> int:
        """Write the next entry of the run, and more; return its seq. Raises LostClaim."""
        topic = SCRIPT_RUN + self.head.id
        with self._lock:
            try:
                self._seq = self._runs.store.journal.append_all([(topic, data, keep), *more], {topic: self._seq})[0]
            except StaleUpdate as problem:
                raise LostClaim("another process of the hub goes on with this run") from problem
            return self._seq

    def begin_call(self, call: str) -> Any:
        """Note that a call begins; return its answer if it was made by a process that has ended, else None.

        Raises ToolFailed for a call that may have been made, and whose result is unknown; LostClaim.
        """
        with self._lock:
            known = self._known.get(call)
            sealed = known.pop(0) if known else None
        if sealed is not None:
            return self._runs.seals.open_result(self.head.id, call, sealed)
        self.write(make_entry(Kind.BEGAN, {"call": call}), SUSPENDED_SECONDS)
        return None

    def end_call(self, call: str, answer: Any) -> None:
        """Note the answer of a call, a JSON value. Raises LostClaim."""
        sealed = self._runs.seals.seal_result(self.head.id, call, answer)
        if len(sealed) <= MAX_LOGGED_BYTES:
            self.write(make_entry(Kind.ANSWERED, {"call": call}, sealed), SUSPENDED_SECONDS)

    def end(self, outcome: Outcome) -> None:
        """Store the outcome of the run, and remove its snapshot; the first outcome counts. Raises LostClaim."""
        if self._has_ended:
            return
        self._has_ended = True
        head = replace(self.head, state=FAILED if outcome.failure else DONE)
        entry, index = self._runs.ended_entries(head, outcome)
        seq = self.write(entry, KEPT_SECONDS, index)
        self._runs.store.journal.remove(SCRIPT_RUN + self.head.id, seq)
        self._runs.store.bus.publish(SCRIPT_RUNS, self.head.id.encode())
        self._runs.drop_oldest_outcomes(head.principal)
