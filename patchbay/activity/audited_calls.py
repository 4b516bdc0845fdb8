"""Makes the rows of finished calls for the audit chain, and appends them, on the thread that writes records.

While a call runs, the hub only notes the rights of its sender. The writer makes the row afterwards, so that a call
waits neither for hashes nor for the disk. Calls without a row (a full queue, a failing store) are counted, and the next
batch begins with a row that has their number.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from patchbay.access.audit.chain import AuditChain, dropped_row
from patchbay.access.audit.rows import CALL, Row
from patchbay.access.decisions import Decision, Object, Rights
from patchbay.access.principals import Principal
from patchbay.activity.call_recording import CallRecording
from patchbay.activity.records import MAX_NAME_CHARACTERS
from patchbay.activity.retention import mode_of
from patchbay.boot import grants
from patchbay.cid import cid_of, cid_of_digest
from patchbay.descriptors import encodable

MAX_EXACT_CODE = 2**53 - 1
"""The largest error code that a row holds, as do its negative and all between."""

PRUNE_SECONDS = 3600.0
"""Seconds between two deletions of old rows."""

QUEUE_FULL, STORE_FAILED = "the queue of finished calls was full", "the store failed"


class AuditedCalls:
    """The audit chain as the writer of records sees it. Safe to use from many threads.

    `rights` returns what a sender may do now. Rows are deleted after `keep` seconds, up to a signed head; 0 keeps all.
    """

    def __init__(self, chain: AuditChain, rights: Callable[[Principal], Rights], keep: float = 0.0) -> None:
        self._keep = keep
        self._next_prune = time.monotonic() + PRUNE_SECONDS
        self.rights = rights
        self.chain = chain
        self._dropped: dict[str, int] = {}
        self._is_signed = True
        self._lock = threading.Lock()

    def drop(self, count: int, reason: str) -> None:
        """Count calls that get no row."""
        with self._lock:
            self._dropped[reason] = self._dropped.get(reason, 0) + count

    def append(self, runs: Sequence[CallRecording], mode: str, entry: int | None) -> None:
        """Append the rows of finished calls. `mode` is the mode of contents of the hub, `entry` the seq of the journal
        entry with their records, None without one.

        Raises PatchbayError of a failing store; then these calls count as dropped.
        """
        with self._lock:
            dropped, self._dropped = self._dropped, {}
        try:
            rows = [dropped_row(count, reason) for reason, count in dropped.items()]
            rows += [row_of_call(run, mode, entry, place) for place, run in enumerate(runs)]
            self._is_signed = False
            self.chain.append(rows)
        except BaseException:
            for reason, count in dropped.items():
                self.drop(count, reason)
            self.drop(len(runs), STORE_FAILED)
            raise
        if self._keep and time.monotonic() >= self._next_prune:
            self._next_prune = time.monotonic() + PRUNE_SECONDS
            self.chain.prune(time.time() - self._keep)

    def sign(self) -> None:
        """Append the rows of dropped calls, and sign the head of the chain, unless this process did so after its last
        row. Raises PatchbayError.
        """
        if self._dropped:
            self.append((), "none", None)
        if not self._is_signed:
            self.chain.sign()
            self._is_signed = True


def row_of_call(run: CallRecording, mode: str, entry: int | None, place: int) -> Row:
    """Return the row of a finished call, without `seq` and `prev`."""
    server, descriptor = run.server, run.named
    mode = mode_of(server, descriptor, mode)
    name = (descriptor.name if descriptor is not None else run.name)[:MAX_NAME_CHARACTERS]
    decision = decision_about(run, name)
    is_exact = isinstance(run.code, int) and abs(run.code) <= MAX_EXACT_CODE
    row = {
        "agent": run.agent,
        "approval": None,
        "arguments": _cid(run.arguments, run.arguments_digest, mode),
        "at": int(run.at * 1000),
        "code": run.code if is_exact else None,
        "configuration": server.config_cid,
        "decision": {
            "allowed": decision.allowed,
            "because": decision.because,
            "document": run.rights.document if run.rights is not None else None,
        },
        "definition": server.definition,
        "kept": mode == "keep" and entry is not None and run.arguments is not None,
        "kind": CALL,
        "method": run.method,
        "name": name,
        "outcome": run.outcome,
        "principal": run.principal,
        "record": None if entry is None else f"{entry}-{place}",
        "result": _cid(run.answer, run.answer_digest, mode),
        "server": server.name,
        "tool": descriptor.digest if descriptor is not None else None,
        "us": int((run.ended - run.begun) * 1e6),
        "version": server.version,
        "way": run.way,
    }
    return {
        key: encodable(value) if type(value) is str and not value.isascii() else value for key, value in row.items()
    }


def decision_about(run: CallRecording, name: str) -> Decision:
    """Return the decision that let a call begin, or that hid what it asked for."""
    rights, server = run.rights, run.server
    if rights is None:
        return Decision(True, "")
    action = grants.CALL if run.method == "tools/call" else grants.READ
    entries = [name]
    if run.descriptor is not None and run.descriptor.name != name:  # the template of a resource
        entries.append(run.descriptor.name)
    if name in server.skill_files:
        entries += [skill.uri for skill in server.skills.values() if name in skill.files]
    decisions = [rights.decide(action, Object(server.name, entry)) for entry in entries]
    return next((decision for decision in decisions if decision.allowed), decisions[0])


def _cid(data: bytes | None, digest: bytes | None, mode: str) -> str | None:
    """Return the CID of a call's arguments or result; None where the settings record no contents at all."""
    if mode == "none":
        return None
    if data is not None:
        return cid_of(data)
    return cid_of_digest(digest) if digest is not None else None
