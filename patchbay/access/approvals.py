"""Approvals of calls: each is for one call of exactly these bytes, and for a limited time.

An approval names the principal, the server with its version, the tool with the digest of its descriptor, and the CID of
the arguments. A call that differs in one of them is another call. Approvals are entries of one topic of the journal;
each entry is written only if no other process wrote one since it was decided, so that an approval is used once.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Mapping
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
"""Calls of one principal that may wait for a decision."""

MAX_ASKED = 300
"""Calls of one principal that may ask for a decision within APPROVAL_SECONDS, also if all of them are decided."""

MAX_PAST = 1000
"""Past decisions about calls of one principal that are in memory and on the page; the oldest are forgotten first."""

UNDECIDED_SECONDS = 2 * APPROVAL_SECONDS
"""Seconds that a call without a decision is kept, with its arguments."""

MAX_SHOWN_BYTES = 16 * 1024
"""Bytes of the arguments that are stored for the people who decide; a call with more cannot be approved on the page."""

WAITING, APPROVED, REFUSED, USED, EXPIRED = "waiting", "approved", "refused", "used", "expired"


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
class Approval:
    """The decision about one call. `made`, `expires` and `decided` are Unix times in seconds.

    `arguments` is their canonical JSON while the call waits, None if it is longer than MAX_SHOWN_BYTES. `by` is the
    principal that decided.
    """

    id: str
    call: CallDigest
    arguments: str | None
    made: float
    expires: float
    state: str = WAITING
    decided: float | None = None
    by: str = ""

    def state_at(self, now: float) -> str:
        """Return the state at a time: one that waits or is approved expires."""
        return EXPIRED if self.state in (WAITING, APPROVED) and now >= self.expires else self.state


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

    def request(self, call: CallDigest, arguments: bytes) -> Approval:
        """Return the approval of a call that waits or is approved and was not used; make one that waits without it.

        Raises ToolFailed when MAX_WAITING calls of the principal wait, or MAX_ASKED of them asked just before.
        """
        assert cid_of(arguments) == call.arguments_cid
        text = arguments.decode() if len(arguments) <= MAX_SHOWN_BYTES else None

        def make(now: float) -> Approval:
            open_ones = [one for one in self._known.values() if one.state_at(now) in (WAITING, APPROVED)]
            for known in open_ones:
                if known.call == call:
                    return known
            if sum(one.call.principal == call.principal for one in open_ones) >= MAX_WAITING:
                raise ToolFailed(f"{MAX_WAITING} of your calls wait for an approval already; wait for decisions first")
            just_before = [one for one in self._known.values() if one.made > now - APPROVAL_SECONDS]
            if sum(one.call.principal == call.principal for one in just_before) >= MAX_ASKED:
                raise ToolFailed(f"{MAX_ASKED} of your calls asked for an approval just before; send this one later")
            return Approval(secrets.token_hex(16), call, text, now, now + APPROVAL_SECONDS)

        return self._change(make)

    def decide(self, id: str, is_approved: bool, by: str) -> Approval:
        """Approve or refuse a call that waits. Raises UnknownApproval."""

        def decided(now: float) -> Approval:
            known = self._known.get(id)
            if known is None or known.state_at(now) != WAITING:
                state = "is unknown" if known is None else f"is {known.state_at(now)} already"
                raise UnknownApproval(f"the call {id[:40]!r} {state}: /approvals shows the calls that wait")
            state = APPROVED if is_approved else REFUSED
            expires = now + APPROVAL_SECONDS
            return replace(known, state=state, decided=now, by=by, expires=expires, arguments=None)

        approval = self._change(decided)
        self._on_decision(approval)
        return approval

    def use(self, id: str, call: CallDigest) -> None:
        """Use an approval for its call, once. Raises ToolFailed for another call, or if it is not approved."""

        def mark_used(now: float) -> Approval:
            known = self._known.get(id)
            if known is None or known.call != call:
                raise ToolFailed("the approval is for another call: send the call again, and let it be approved")
            if (state := known.state_at(now)) != APPROVED:
                raise ToolFailed(f"the approval of this call is {state} already: send the call again")
            return replace(known, state=USED)

        self._change(mark_used)

    def give_back(self, id: str) -> None:
        """Make a used approval usable again: its call asked its caller a question, and will be sent again."""

        def mark_approved(now: float) -> Approval:
            known = self._known.get(id)
            if known is None or known.state != USED:
                raise InvalidParams(f"the approval {id[:40]!r} is not in use")
            return replace(known, state=APPROVED)

        self._change(mark_approved)

    def find(self, id: str) -> Approval | None:
        """Return an approval as it is now."""
        with self._lock:
            self._read()
            return self._known.get(id)

    def all(self) -> list[Approval]:
        """Return the approvals of the last KEPT_SECONDS, newest first."""
        with self._lock:
            self._read()
            return sorted(self._known.values(), key=lambda one: one.made, reverse=True)

    def count_waiting(self) -> int:
        """Return how many calls wait for a decision."""
        with self._lock:
            self._read()
            now = self.now()
            return sum(one.state_at(now) == WAITING for one in self._known.values())

    def _change(self, step: Callable[[float], Approval]) -> Approval:
        """Store what `step` makes of the state of now, if it is new. Raises what `step` raises."""
        while True:
            with self._lock:
                last = self._journal.last(APPROVALS)
                self._read()
                changed = step(self.now())
                if self._known.get(changed.id) == changed:
                    return changed
                row = {**_row(changed), "call": _fields(changed.call)}
                kept = UNDECIDED_SECONDS if changed.state == WAITING else KEPT_SECONDS
                try:
                    self._journal.append_all([(APPROVALS, orjson.dumps(row), kept)], {APPROVALS: last})
                except StaleUpdate:
                    continue  # another process wrote in the meantime
                self._known[changed.id] = changed
            self._bus.publish(APPROVALS, changed.id.encode())
            return changed

    def _read(self) -> None:
        # To the end: a later entry may say that an approval is used.
        while entries := self._journal.read(APPROVALS, self._seq):
            for entry in entries:
                self._seq = entry.seq
                row = orjson.loads(entry.data)
                self._known[row["id"]] = Approval(**{**row, "call": CallDigest(**row["call"])})
        self._forget_old(self.now())

    def _forget_old(self, now: float) -> None:
        """Forget calls after their time, and the oldest past decisions beyond MAX_PAST of each principal."""
        past: Counter[str] = Counter()
        for one in sorted(self._known.values(), key=lambda one: one.made, reverse=True):
            is_past = one.state_at(now) not in (WAITING, APPROVED)
            past[one.call.principal] += is_past
            kept = UNDECIDED_SECONDS if one.decided is None else KEPT_SECONDS
            if one.made < now - kept or (is_past and past[one.call.principal] > MAX_PAST):
                del self._known[one.id]


def _row(approval: Approval) -> dict[str, Any]:
    names = ("id", "arguments", "made", "expires", "state", "decided", "by")
    return {name: getattr(approval, name) for name in names}


def _fields(call: CallDigest) -> dict[str, str]:
    names = ("principal", "server", "version", "tool", "tool_digest", "arguments_cid")
    fields = {name: getattr(call, name) for name in names}
    return {**fields, "origins": call.origins} if call.origins else fields
