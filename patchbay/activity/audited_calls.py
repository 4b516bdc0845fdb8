"""Makes the rows of finished calls for the audit chain, and appends them, on the thread that writes records.

While a call runs, the hub only notes its sender and the document of grants in force. The writer makes the row
afterwards, so that a call waits neither for hashes nor for the disk. The row of a decision about a call is written at
once, by the thread that decides. Calls without a row (a full queue, a failing
store) are counted, and the next batch begins with a row that has their number. Refused calls beyond a number in a
minute get one row together (`access/audit/refusals.py`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from patchbay.access.approvals import Approval
from patchbay.access.audit.approval_rows import approval_row
from patchbay.access.audit.chain import AuditChain, Batch, dropped_row
from patchbay.access.audit.packed_rows import Draft, Template
from patchbay.access.audit.refusals import Refusals
from patchbay.access.audit.rows import CALL, Row, make_template
from patchbay.access.decisions import Decision, Object, Rights, rights_of
from patchbay.access.principals import LOCAL
from patchbay.activation import DISCONNECTED
from patchbay.activity.call_recording import MAX_NAME_CHARACTERS, CallRecording
from patchbay.activity.retention import mode_of
from patchbay.activity.stored_rows import ANSWER_DIGEST_PLACE, ARGUMENTS_DIGEST_PLACE
from patchbay.boot.grants import CALL as MAY_CALL
from patchbay.boot.grants import READ, Grants
from patchbay.descriptors import encodable
from patchbay.errors import PatchbayError, StoreAway

log = logging.getLogger(__name__)

MAX_EXACT_CODE = 2**53 - 1
"""The largest error code that a row holds, as do its negative and all between."""

MAX_TEMPLATES = 4096
"""Limit on the templates in memory."""

NO_RECORD: list[Any] = [None] * (ANSWER_DIGEST_PLACE + 1)
"""Stands for the stored record of a call without one."""

PRUNE_SECONDS = 3600.0
"""Seconds between two deletions of old rows."""

MAX_WAITING = 1000
"""Limit on the batches that wait while the store is away; further rows of decisions count as dropped."""

REFUSED = frozenset(("error", "tool_error", "cancelled"))
"""Outcomes of a call that never began."""

QUEUE_FULL, STORE_FAILED = "the queue of finished calls was full", "the store failed"


@dataclass(eq=False, slots=True)
class Unwritten:
    """A batch of rows that the chain does not have yet, or of which that is unknown because an answer did not arrive.

    `runs` are its calls, None without any; `count` is their number, or that of decisions. `losses` are what its rows
    say about calls without a row.
    """

    runs: Sequence[CallRecording] | None
    count: int
    losses: dict[str, int]
    batch: Batch


class AuditedCalls:
    """The audit chain as the writer of records sees it. Safe to use from many threads.

    `grants` returns the document in force. Rows are deleted after `keep` seconds, up to a signed head; 0 keeps all.
    `refusals` says which refused calls get no row of their own; without it, all get one.
    """

    def __init__(
        self,
        chain: AuditChain,
        grants: Callable[[], Grants | None],
        keep: float = 0.0,
        refusals: Refusals | None = None,
    ) -> None:
        self._refusals = refusals
        self._drafts = Drafts()
        self._keep = keep
        self._next_prune = time.monotonic() + PRUNE_SECONDS
        self.grants = grants
        self.chain = chain
        self._dropped: dict[str, int] = {}
        self._is_signed = True
        self._waiting: list[Unwritten] = []
        self._lock = threading.Lock()

    def drop(self, count: int, reason: str) -> None:
        """Count calls that get no row."""
        with self._lock:
            self._dropped[reason] = self._dropped.get(reason, 0) + count

    def append(
        self, runs: Sequence[CallRecording], mode: str, entry: int | None, records: Sequence[list[Any]] = ()
    ) -> None:
        """Append the rows of finished calls. `mode` is the mode of contents of the hub, `entry` the seq of the journal
        entry with their `records`, None without one.

        Raises PatchbayError of a failing store; then these calls count as dropped, except after StoreAway: the caller
        tries again with the same `runs`, whose rows are written once.
        """
        if not any(one.runs is runs for one in self._waiting):
            try:
                together = self._count_refused(runs)
                drafts = self._drafts.make_all(runs, mode, entry, records, together)
            except BaseException:
                self.drop(len(runs), STORE_FAILED)
                raise
            self._add(runs, len(drafts), self._refusal_rows(), drafts)
        self._write_waiting()
        self._prune()

    def _count_refused(self, runs: Sequence[CallRecording]) -> set[int]:
        """Return the places of the refused calls that get one row together."""
        if self._refusals is None:
            return set()
        counts = self._refusals
        return {
            place
            for place, run in enumerate(runs)
            if not run.has_begun and run.outcome in REFUSED and counts.is_beyond(run.principal, run.at)
        }

    def _refusal_rows(self, is_end: bool = False) -> list[Row]:
        """Return the rows of refused calls that are due."""
        now = self.chain.now_ms() / 1000
        return self._refusals.take_rows(now, is_end) if self._refusals is not None else []

    def add_decision(self, approval: Approval) -> None:
        """Append the row of a decision about a call. While the store is away the row waits for the next append. Another
        failure of the store is logged, and the row counts as dropped.
        """
        if len(self._waiting) >= MAX_WAITING:
            self.drop(1, QUEUE_FULL)
            return
        self._add(None, 1, [approval_row(approval)], ())
        try:
            self._write_waiting()
        except PatchbayError as problem:
            log.warning("the audit row of an approval could not be written: %s", problem)

    def _add(
        self, runs: Sequence[CallRecording] | None, count: int, rows: Sequence[Row], drafts: Sequence[Draft]
    ) -> None:
        """Add a batch to those that wait: the rows of what was dropped, and these."""
        with self._lock:
            losses, self._dropped = self._dropped, {}
            lost = [dropped_row(number, reason, self.chain.now_ms()) for reason, number in losses.items()]
            self._waiting.append(Unwritten(runs, count, losses, Batch([*lost, *rows], drafts)))

    def _write_waiting(self) -> None:
        """Append the batches that wait, in order. Raises PatchbayError; after StoreAway they wait on."""
        for unwritten in tuple(self._waiting):
            self._is_signed = False
            try:
                self.chain.append_batch(unwritten.batch)
            except StoreAway:
                raise
            except BaseException:
                if self._remove(unwritten):
                    for reason, number in unwritten.losses.items():
                        self.drop(number, reason)
                    self.drop(unwritten.count, STORE_FAILED)
                raise
            self._remove(unwritten)

    def _remove(self, unwritten: Unwritten) -> bool:
        """Take a batch out of those that wait; False when another thread did."""
        with self._lock:
            count = len(self._waiting)
            self._waiting = [one for one in self._waiting if one is not unwritten]
            return len(self._waiting) < count

    def _prune(self) -> None:
        """Delete old rows, once in PRUNE_SECONDS. A failure of the store is logged."""
        if not self._keep or time.monotonic() < self._next_prune:
            return
        self._next_prune = time.monotonic() + PRUNE_SECONDS
        try:
            self.chain.prune(self.chain.now_ms() / 1000 - self._keep)
        except PatchbayError as problem:
            log.warning("old rows of the audit chain could not be deleted: %s", problem)

    def sign(self) -> None:
        """Append the rows of dropped and of refused calls, and sign the head of the chain, unless this process did so
        after its last row. Raises PatchbayError.
        """
        rows = self._refusal_rows(is_end=True)
        if self._dropped or rows:
            self._add(None, 0, rows, ())
        self._write_waiting()
        if not self._is_signed:
            self.chain.sign()
            self._is_signed = True


class Drafts:
    """Makes drafts of rows. What similar calls have in common is made once, as a template. For one thread at a time."""

    def __init__(self) -> None:
        self._templates: dict[tuple[Any, ...], tuple[Template, str, tuple[Any, ...]]] = {}

    def make_all(
        self,
        runs: Sequence[CallRecording],
        mode: str,
        entry: int | None,
        records: Sequence[list[Any]],
        without: Set[int] = frozenset(),
    ) -> list[Draft]:
        """Return the drafts of finished calls. `entry` is the seq of the journal entry with their `records`, None
        without one. The calls at the places `without` get no draft.
        """
        drafts = list[Draft]()
        for place, run in enumerate(runs):
            if place in without:
                continue
            template, own = self._find_template(run, mode, has_record=entry is not None)
            record = records[place] if records else NO_RECORD
            arguments, result = record[ARGUMENTS_DIGEST_PLACE], record[ANSWER_DIGEST_PLACE]
            if arguments is None or result is None:  # the record of a usual call has both digests
                arguments = _digest(arguments, run.arguments, run.arguments_digest, own)
                result = _digest(result, run.answer, run.answer_digest, own)
            record_id = f'"{entry}-{place}"' if entry else "null"
            us = int((run.ended - run.begun) * 1e6)
            drafts.append((template, arguments, int(run.at * 1000), record_id, result, us))
        return drafts

    def _find_template(self, run: CallRecording, mode: str, has_record: bool) -> tuple[Template, str]:
        """Return the template of a call, and the mode of contents of its server."""
        server, descriptor, sender = run.server, run.descriptor, run.sender
        assert sender is not None
        is_kept = mode == "keep" and has_record and run.arguments is not None
        key = (
            id(server),
            id(descriptor),
            id(run.grants),
            run.name,
            run.method,
            run.outcome,
            run.code if run.code is None else _code(run),
            run.way,
            sender,
            mode,
            is_kept,
            run.approval,
            run.reason == DISCONNECTED,
        )
        known = self._templates.get(key)
        if known is None:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates = {}
            template, own = make_template(common_fields(run, is_kept)), mode_of(server, run.called, mode)
            # The objects stay in memory as long as the key has their ids.
            known = template, own, (server, descriptor, run.grants)
            if len(run.name) <= MAX_NAME_CHARACTERS and not run.approval:  # an approval is used once
                self._templates[key] = known
        return known[0], known[1]


def common_fields(run: CallRecording, is_kept: bool) -> Row:
    """Return the fields of a row that similar calls have in common."""
    server, descriptor, sender = run.server, run.called, run.sender or LOCAL
    name = run.recorded_name
    rights = rights_of(sender, run.grants)
    decision = decision_about(run, rights, name)
    row: Row = {
        "agent": sender.agent,
        "approval": run.approval or None,
        "code": _code(run),
        "configuration": server.config_cid,
        "decision": {"allowed": decision.allowed, "because": decision.because, "document": rights.document},
        "definition": server.definition,
        "kept": is_kept,
        "kind": CALL,
        "method": run.method,
        "name": name,
        "outcome": run.outcome,
        "principal": run.principal,
        "server": server.name,
        "tool": descriptor.digest if descriptor is not None else None,
        "version": server.version,
        "way": run.way,
    }
    if descriptor is not None and descriptor.origins:
        row["origins"] = [origin.to_json() for origin in descriptor.origins]
    if run.reason == DISCONNECTED:  # the words of a client are no part of the chain
        row["reason"] = run.reason
    for key, value in row.items():
        if type(value) is str and not value.isascii():
            row[key] = encodable(value)
    return row


def _code(run: CallRecording) -> int | None:
    """Return the error code of a call; None for one that is not an exact integer, which a mounted server may send."""
    is_exact = type(run.code) is int and abs(run.code) <= MAX_EXACT_CODE
    return run.code if is_exact else None


def decision_about(run: CallRecording, rights: Rights, name: str) -> Decision:
    """Return the decision that let a call begin, or that hid what it asked for."""
    server = run.server
    action = MAY_CALL if run.method == "tools/call" else READ
    entries = [name]
    if run.descriptor is not None and run.descriptor.name != name:  # the template of a resource
        entries.append(run.descriptor.name)
    if name in server.skill_files:
        entries += [skill.uri for skill in server.skills.values() if name in skill.files]
    decisions = [rights.decide(action, Object(server.name, entry)) for entry in entries]
    return next((decision for decision in decisions if decision.allowed), decisions[0])


def _digest(digest: str | None, data: bytes | None, large: bytes | None, mode: str) -> str:
    """Return the digest of a call's arguments or result in hexadecimal; empty where the settings record no contents.

    `digest` is known from the record of the call, `large` is the digest of contents that are too large for a record.
    """
    if mode == "none":
        return ""
    if digest is not None:
        return digest
    if data is not None:
        return sha256(data).hexdigest()
    return large.hex() if large is not None else ""
