"""Approvals of calls: each is for one call of exactly these bytes, and for a limited time.

An approval names the principal, the server with its version, the tool with the digest of its descriptor, and the CID of
the arguments. A call that differs in one of them is another call. Approvals are entries of one topic of the journal;
each entry is written only if no other process wrote one since it was decided, so that an approval is used once.

A run of a script asks for many calls by one question (`ask`): each call has an approval of its own, whose id is that of
the question with a number, and one decision may be about all of them. Only that run uses them.

The rehearsal of a script asks in the same way (`ask_rehearsed`). Its approvals are for the same calls of the runs of
that script with the same inputs, and each is used once (`take_rehearsed`).
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from patchbay.cid import cid_of
from patchbay.errors import InvalidParams, PatchbayError, StaleUpdate, ToolFailed
from patchbay.jsonrpc import dump_json
from patchbay.store import Store
from patchbay.topics import APPROVALS

APPROVAL_SECONDS = 600.0
"""Seconds that a call may wait for a decision, and that an approval is good for afterwards."""

KEPT_SECONDS = 24 * 3600.0
"""Seconds that the page shows past decisions."""

MAX_WAITING = 100
"""Questions of one principal that may wait for a decision; a question is about one call, or about calls of a run."""

MAX_ASKED = 300
"""Questions that one principal may ask within APPROVAL_SECONDS, also if all of them are decided."""

MAX_QUESTION_CALLS = 200
"""Calls of one question."""

MAX_WAITING_CALLS = 400
"""Calls of one principal that may wait for a decision, in all its questions."""

MAX_ASKED_CALLS = 1200
"""Calls that one principal may ask for within APPROVAL_SECONDS, in all its questions."""

MAX_PAST = 1000
"""Past decisions about calls of one principal that are in memory and on the page; the oldest are forgotten first."""

UNDECIDED_SECONDS = 2 * APPROVAL_SECONDS
"""Seconds that a call without a decision is kept, with its arguments."""

FORGET_SECONDS = 60.0
"""Seconds between two looks for calls whose time is over, where only single ones are read."""

MAX_SHOWN_BYTES = 16 * 1024
"""Bytes of the arguments that are stored for the people who decide; a call with more cannot be approved on the page."""

WAITING, APPROVED, REFUSED, USED, EXPIRED = "waiting", "approved", "refused", "used", "expired"
REPLACED = "replaced"
"""The state of an unused approval of a rehearsal when the same script was rehearsed again."""
WITHDRAWN = "withdrawn"
"""The state of an approval that was not used when the run of a script that asked for it was cancelled."""


class UnknownApproval(PatchbayError):
    """No call with this id waits for a decision."""

    code, status = -32602, 404


@dataclass(frozen=True, slots=True)
class CallDigest:
    """Exactly one call: the same principal, the same version of the same tool, the same arguments.

    `origins` is a JSON array of what is behind a tool of a toolset (`patchbay.descriptors.Origin`), empty for any other
    tool.
    """

    principal: str
    server: str
    version: str
    tool: str
    tool_digest: str
    arguments_cid: str
    origins: str = ""


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call that needs an approval. `arguments` are the bytes of `canonical_arguments`."""

    exact: CallDigest
    arguments: bytes


@dataclass(frozen=True, slots=True)
class Approval:
    """The decision about one call. `made`, `expires` and `decided` are Unix times in seconds.

    `arguments` is their canonical JSON while the call waits, None if it is longer than MAX_SHOWN_BYTES. `by` is the
    principal that decided. `script` is the digest of a rehearsed script with its place and inputs, "" for any other
    call; `is_taken` says that a run of that script has this approval.
    """

    id: str
    call: CallDigest
    arguments: str | None
    made: float
    expires: float
    state: str = WAITING
    decided: float | None = None
    by: str = ""
    script: str = ""
    is_taken: bool = False

    def state_at(self, now: float) -> str:
        """Return the state at a time: one that waits or is approved expires."""
        return EXPIRED if self.state in (WAITING, APPROVED) and now >= self.expires else self.state

    @property
    def question(self) -> str:
        """The id of the question that asked for it: its own id, or that of a question about calls of a run."""
        return self.id.partition(".")[0]

    @property
    def run(self) -> str:
        """The id of the run of a script that asked for it; "" for an approval that any equal call may use."""
        return self.id.partition("-")[0] if "-" in self.id else ""


def canonical_arguments(arguments: Mapping[str, Any]) -> bytes:
    """Return the arguments as JSON with sorted keys and without spaces: the bytes that an approval is for."""
    return dump_json(arguments, is_sorted=True)


class Approvals:
    """The approvals of one hub, in every process. Safe to use from many threads.

    `on_decision` is called with each approval after its decision is stored.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] | None = None,
        on_decision: Callable[[Approval], None] = lambda approval: None,
    ) -> None:
        self._on_decision = on_decision
        self._journal = store.journal
        self._bus = store.bus
        self.now = clock or store.now
        self._lock = threading.Lock()
        self._seq = 0
        self._known: dict[str, Approval] = {}
        self._questions: dict[str, list[str]] = {}
        """The ids of the calls of each question, in order."""
        self._forgets_at = 0.0

    def request(self, call: CallDigest, arguments: bytes) -> Approval:
        """Return the approval of a call that waits or is approved and was not used; make one that waits without it.

        Raises ToolFailed when MAX_WAITING questions of the principal wait, or it asked MAX_ASKED of them just before.
        """

        def make(now: float) -> list[Approval]:
            for known in self._known.values():
                if known.call == call and not known.run and known.state_at(now) in (WAITING, APPROVED):
                    return [known]
            self._check_room(call.principal, 1, now)
            return [_new_approval(secrets.token_hex(16), AskedCall(call, arguments), now)]

        return self._change(make)[0]

    def ask(self, run: str, calls: Sequence[AskedCall]) -> list[Approval]:
        """Ask for the approval of calls of a run by one question; return the approvals, in order, which wait.

        `run` is the id of the run, which alone uses them. Raises ToolFailed for more than MAX_QUESTION_CALLS calls, and
        where the principal has too many questions or calls.
        """
        if len(calls) > MAX_QUESTION_CALLS:
            raise ToolFailed(f"{len(calls)} calls at the same time need an approval; at most {MAX_QUESTION_CALLS} may")
        question = f"{run}-{secrets.token_hex(16)}"

        def make(now: float) -> list[Approval]:
            self._check_room(calls[0].exact.principal, len(calls), now)
            return [_new_approval(f"{question}.{number}", one, now) for number, one in enumerate(calls, 1)]

        return self._change(make)

    def ask_rehearsed(
        self, run: str, script: str, calls: Sequence[AskedCall], answered: Collection[str] = ()
    ) -> list[Approval]:
        """Ask for the approval of the calls of a rehearsal by one question; return the approvals, in order.

        `run` is the id of the rehearsal, and `script` the digest of what it rehearsed. The question of an earlier
        rehearsal of the same script with the same calls is returned while it waits, while all its calls are approved,
        and where its id is in `answered`; any other earlier one is replaced, so that no call is approved twice. Raises
        ToolFailed as `ask`.
        """
        exact = [one.exact for one in calls]
        question = f"{run}-{secrets.token_hex(16)}"

        def make(now: float) -> list[Approval]:
            earlier: dict[str, list[Approval]] = {}
            for one in self._known.values():
                if one.script == script and one.call.principal == exact[0].principal:
                    earlier.setdefault(one.question, []).append(one)
            for id, asked in earlier.items():
                if [one.call for one in asked] == exact and (id in answered or _is_open(asked, now)):
                    return asked
            self._check_room(exact[0].principal, len(calls), now)
            unused = [
                replace(one, state=REPLACED, arguments=None)
                for asked in earlier.values()
                for one in asked
                if one.state_at(now) in (WAITING, APPROVED) and not one.is_taken
            ]
            asked = [_new_approval(f"{question}.{number}", one, now, script) for number, one in enumerate(calls, 1)]
            return unused + asked

        return self._change(make)[-len(calls) :]

    def take_rehearsed(self, script: str, call: CallDigest) -> str:
        """Take an approval of a call that a rehearsal of this script got; return its id, "" if there is none.

        No other call gets it then: `use` follows.
        """

        def take(now: float) -> list[Approval]:
            for one in self._known.values():
                is_free = one.script == script and one.call == call and not one.is_taken
                if is_free and one.state_at(now) == APPROVED:
                    return [replace(one, is_taken=True)]
            return []

        taken = self._change(take)
        return taken[0].id if taken else ""

    def decide(self, id: str, is_approved: bool, by: str) -> Approval:
        """Approve or refuse a call that waits. Raises UnknownApproval."""

        def decided(now: float) -> list[Approval]:
            known = self._known.get(id)
            if known is None or known.state_at(now) != WAITING:
                state = "is unknown" if known is None else f"is {known.state_at(now)} already"
                raise UnknownApproval(f"the call {id[:60]!r} {state}: /approvals shows the calls that wait")
            return [_decided(known, is_approved, by, now)]

        return self._note_decisions(self._change(decided))[0]

    def decide_all(self, question: str, approved: Collection[str], by: str) -> list[Approval]:
        """Approve the waiting calls of a question whose ids are in `approved`, and refuse the others.

        Raises UnknownApproval if none of them waits.
        """

        def decided(now: float) -> list[Approval]:
            waiting = [one for one in self._of_question(question) if one.state_at(now) == WAITING]
            if not waiting:
                raise UnknownApproval(
                    f"no call of the question {question[:60]!r} waits: /approvals shows those that do"
                )
            return [_decided(one, one.id in approved, by, now) for one in waiting]

        return self._note_decisions(self._change(decided))

    def withdraw(self, run: str) -> None:
        """End the approvals of all questions of a run that wait or were not used: the run was cancelled."""

        def withdrawn(now: float) -> list[Approval]:
            asked = [one for one in self._known.values() if one.run == run]
            unused = [one for one in asked if one.state_at(now) in (WAITING, APPROVED)]
            return [replace(one, state=WITHDRAWN, arguments=None) for one in unused]

        self._change(withdrawn)

    def use(self, id: str, call: CallDigest) -> None:
        """Use an approval for its call, once. Raises ToolFailed for another call, or if it is not approved."""

        def mark_used(now: float) -> list[Approval]:
            known = self._known.get(id)
            if known is None or known.call != call:
                raise ToolFailed("the approval is for another call: send the call again, and let it be approved")
            if (state := known.state_at(now)) != APPROVED:
                raise ToolFailed(f"the approval of this call is {state} already: send the call again")
            return [replace(known, state=USED)]

        self._change(mark_used)

    def give_back(self, id: str) -> None:
        """Make a used approval usable again: its call asked its caller a question, and will be sent again."""

        def mark_approved(now: float) -> list[Approval]:
            known = self._known.get(id)
            if known is None or known.state != USED:
                raise InvalidParams(f"the approval {id[:60]!r} is not in use")
            return [replace(known, state=APPROVED)]

        self._change(mark_approved)

    def find(self, id: str) -> Approval | None:
        """Return an approval as it is now."""
        with self._lock:
            self._read()
            return self._known.get(id)

    def find_question(self, question: str) -> list[Approval]:
        """Return the approvals of a question as they are now, in order; empty for an unknown one."""
        return self.find_questions([question])[0]

    def find_questions(self, questions: Sequence[str]) -> list[list[Approval]]:
        """Return the approvals of each of several questions, all as they are at one moment."""
        with self._lock:
            self._read()
            return [self._of_question(one) for one in questions]

    def all(self) -> list[Approval]:
        """Return the approvals of the last KEPT_SECONDS, newest first; those of one question in order."""
        with self._lock:
            self._read()
            self._forget_old(self.now())
            return sorted(self._known.values(), key=lambda one: one.made, reverse=True)

    def count_waiting(self) -> int:
        """Return how many questions wait for a decision."""
        with self._lock:
            self._read()
            now = self.now()
            return len({one.question for one in self._known.values() if one.state_at(now) == WAITING})

    def _of_question(self, question: str) -> list[Approval]:
        return [self._known[id] for id in self._questions.get(question, ())]

    def _check_room(self, principal: str, count: int, now: float) -> None:
        """Raise ToolFailed if a principal may not ask for so many further calls by one question."""
        own = [one for one in self._known.values() if one.call.principal == principal]
        open_ones = [one for one in own if one.state_at(now) in (WAITING, APPROVED)]
        if len({one.question for one in open_ones}) >= MAX_WAITING or len(open_ones) + count > MAX_WAITING_CALLS:
            raise ToolFailed(f"{len(open_ones)} of your calls wait for an approval already; wait for decisions first")
        just_before = [one for one in own if one.made > now - APPROVAL_SECONDS]
        if len({one.question for one in just_before}) >= MAX_ASKED or len(just_before) + count > MAX_ASKED_CALLS:
            sentence = f"{len(just_before)} of your calls asked for an approval just before; send this one later"
            raise ToolFailed(sentence)

    def _note_decisions(self, decided: list[Approval]) -> list[Approval]:
        for one in decided:
            self._on_decision(one)
        return decided

    def _change(self, step: Callable[[float], list[Approval]]) -> list[Approval]:
        """Store what `step` makes of the state of now, as far as it is new. Raises what `step` raises."""
        while True:
            with self._lock:
                last = self._journal.last(APPROVALS)
                self._read()
                self._forget_old(self.now())
                changed = step(self.now())
                fresh = [one for one in changed if self._known.get(one.id) != one]
                if not fresh:
                    return changed
                try:
                    self._journal.append_all([_entry(one) for one in fresh], {APPROVALS: last})
                except StaleUpdate:
                    continue  # another process wrote in the meantime
                for one in fresh:
                    self._keep(one)
            self._bus.publish(APPROVALS, fresh[0].question.encode())
            return changed

    def _read(self) -> None:
        # To the end: a later entry may say that an approval is used.
        while entries := self._journal.read(APPROVALS, self._seq):
            for entry in entries:
                self._seq = entry.seq
                row = orjson.loads(entry.data)
                self._keep(Approval(**{**row, "call": CallDigest(**row["call"])}))
        if (now := self.now()) >= self._forgets_at:
            self._forget_old(now)

    def _keep(self, one: Approval) -> None:
        if one.id not in self._known:
            self._questions.setdefault(one.question, []).append(one.id)
        self._known[one.id] = one

    def _forget(self, one: Approval) -> None:
        del self._known[one.id]
        ids = self._questions[one.question]
        ids.remove(one.id)
        if not ids:
            del self._questions[one.question]

    def _forget_old(self, now: float) -> None:
        """Forget calls after their time, and the oldest past decisions beyond MAX_PAST of each principal."""
        self._forgets_at = now + FORGET_SECONDS
        past: Counter[str] = Counter()
        for one in sorted(self._known.values(), key=lambda one: one.made, reverse=True):
            is_past = one.state_at(now) not in (WAITING, APPROVED)
            past[one.call.principal] += is_past
            kept = UNDECIDED_SECONDS if one.decided is None else KEPT_SECONDS
            if one.made < now - kept or (is_past and past[one.call.principal] > MAX_PAST):
                self._forget(one)


def _is_open(asked: Sequence[Approval], now: float) -> bool:
    """Whether a question of a rehearsal waits, or all its calls are approved and none has run."""
    states = {one.state_at(now) for one in asked}
    return WAITING in states or (states == {APPROVED} and not any(one.is_taken for one in asked))


def _new_approval(id: str, call: AskedCall, now: float, script: str = "") -> Approval:
    assert cid_of(call.arguments) == call.exact.arguments_cid
    text = call.arguments.decode() if len(call.arguments) <= MAX_SHOWN_BYTES else None
    return Approval(id, call.exact, text, now, now + APPROVAL_SECONDS, script=script)


def _decided(known: Approval, is_approved: bool, by: str, now: float) -> Approval:
    state = APPROVED if is_approved else REFUSED
    return replace(known, state=state, decided=now, by=by, expires=now + APPROVAL_SECONDS, arguments=None)


def _entry(approval: Approval) -> tuple[str, bytes, float]:
    row = {**_row(approval), "call": _fields(approval.call)}
    return APPROVALS, orjson.dumps(row), UNDECIDED_SECONDS if approval.state == WAITING else KEPT_SECONDS


def _row(approval: Approval) -> dict[str, Any]:
    names: tuple[str, ...] = ("id", "arguments", "made", "expires", "state", "decided", "by")
    names += ("script", "is_taken") if approval.script else ()
    return {name: getattr(approval, name) for name in names}


def _fields(call: CallDigest) -> dict[str, str]:
    names = ("principal", "server", "version", "tool", "tool_digest", "arguments_cid")
    fields = {name: getattr(call, name) for name in names}
    return {**fields, "origins": call.origins} if call.origins else fields
