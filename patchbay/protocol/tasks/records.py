"""The record of a task: its journal entries, the state that they fold into, and the process that runs it.

The journal topic `task/<id>` holds the whole state. Its entries are `made`, `began` (of a job), `asked`,
`answered`, `cancel` and `ended`;
any process may append, and every process folds them to the same state, because only the first `ended` counts and an
answer counts only while its question is open. After each entry a message goes to the bus topic of the same name; it may
be lost.

The `made` entry names the process that runs the task. When that process is lost (`process_liveness.py`), the next
process that reads one of its tasks ends it as failed. So no task stays "working" without a process, and a process that
was only slow finds its task ended and abandons it.
Source: SEP-2663.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from patchbay.catalogue.contents.ledger import STORED, Ledger
from patchbay.coordination.process_liveness import ProcessLiveness
from patchbay.jsonrpc import Notification, encode
from patchbay.store import JournalEntry, Store
from patchbay.topics import TASK_CHANGES

POLL_MILLISECONDS = 500
"""Milliseconds between two polls of a client, as the hub recommends."""

QUEUED = "queued"
"""The owner of a task that waits for a worker."""

PAGE = 1000
"""Entries in one read."""

_ID = re.compile(r"[A-Za-z0-9_-]{16,64}")


@dataclass(slots=True)
class Task:
    """The state of one task so far. Times are Unix time in seconds, `ttl` is seconds from `created`.

    `pending` holds questions without an answer, `answers` the answers, both by the key on the wire. `outcome` is
    `{"result"}` of a completed and `{"error"}` of a failed task. `is_job` says that any worker may run it.
    """

    id: str
    principal: str = ""
    endpoint: str = ""
    owner: str = ""
    created: float = 0.0
    updated: float = 0.0
    ttl: float = 0.0
    pending: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    is_job: bool = False
    cancelling: bool = False
    ended: str | None = None
    outcome: dict[str, Any] = field(default_factory=dict)
    message: str | None = None
    seq: int = 0
    size: int = 0
    """Bytes of its entries so far."""

    @property
    def status(self) -> str:
        """The status: one of the five values of the protocol."""
        return self.ended or ("input_required" if self.pending else "working")

    @property
    def topic(self) -> str:
        """The topic of its entries and messages."""
        return TASK_CHANGES + self.id

    def seconds_left(self, now: float) -> float:
        """Return the seconds from `now`, in the store's time, until its record may be deleted."""
        return self.created + self.ttl - now

    def apply(self, entry: JournalEntry) -> None:
        """Apply one entry."""
        recorded = orjson.loads(entry.data)
        kind, params = recorded["method"], recorded.get("params", {})
        self.seq = entry.seq
        self.size += len(entry.data)
        if self.ended is not None:
            return
        self.updated = entry.at
        if kind == "made":
            self.principal, self.endpoint, self.owner = params["principal"], params["endpoint"], params["owner"]
            self.created, self.ttl = entry.at, params["ttl"]
            self.is_job = self.owner == QUEUED
        elif kind == "began":
            self.owner = params["owner"]
            self.pending.clear()  # the questions of an earlier attempt
        elif kind == "asked":
            self.pending |= params
        elif kind == "answered":
            for key in params.keys() & self.pending.keys():
                del self.pending[key]
                self.answers[key] = params[key]
        elif kind == "cancel":
            self.cancelling = True
        elif kind == "ended":
            self.ended, self.message = params["status"], params.get("message")
            self.outcome = {name: params[name] for name in ("result", "error") if name in params}

    def to_json(self) -> dict[str, Any]:
        """Return the members that every form of a task has."""
        seen: dict[str, Any] = {"taskId": self.id, "status": self.status}
        if self.message:
            seen["statusMessage"] = self.message
        moments = {"createdAt": _moment(self.created), "lastUpdatedAt": _moment(self.updated)}
        return seen | moments | {"ttlMs": round(self.ttl * 1000), "pollIntervalMs": POLL_MILLISECONDS}

    def detailed(self) -> dict[str, Any]:
        """Return the task with the members of its status (DetailedTask)."""
        if self.ended is not None:
            return self.to_json() | self.outcome
        return self.to_json() | ({"inputRequests": dict(self.pending)} if self.pending else {})


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TaskStore:
    """Reads and writes tasks; `liveness` identifies this process. Thread-safe.

    Ended tasks count in the account of their principal in `ledger`; without one, nothing is limited.
    """

    def __init__(self, store: Store, ledger: Ledger | None = None) -> None:
        self.store = store
        self._ledger = ledger or Ledger(store.journal)
        self.liveness = ProcessLiveness(store)

    def make(self, principal: str, endpoint: str, ttl: float, owner: str = "") -> Task:
        """Create a task that this process runs, or `owner`; every process can read it on return."""
        task = Task(secrets.token_urlsafe(24), ttl=ttl, created=self.store.now())
        made = {"principal": principal, "endpoint": endpoint, "owner": owner or self.liveness.process, "ttl": ttl}
        self.append(task, "made", made)
        self.catch_up(task)
        return task

    def append(self, task: Task, kind: str, params: dict[str, Any]) -> None:
        """Write an entry, then publish a message. The entry lasts as long as the task."""
        # The `made` entry expires first: the other entries without it do not form a task.
        keep = max(task.seconds_left(self.store.now()), 0.0) + (0.0 if kind == "made" else 1.0)
        entry = (task.topic, encode(Notification(kind, params)), keep)
        rows = []
        if kind == "ended":
            rows.append(self._ledger.row(task.principal, STORED, task.topic, task.size + len(entry[1]), keep))
        self.store.journal.append_all([entry, *rows], {})
        self.store.bus.publish(task.topic)
        if rows:
            self._ledger.make_room(task.principal)

    def end(self, task: Task, status: str, **more: Any) -> None:
        """Write the end of a task; an earlier end stays valid."""
        self.append(task, "ended", {"status": status} | {name: value for name, value in more.items() if value})

    def catch_up(self, task: Task) -> None:
        """Apply the entries since the last read."""
        while entries := self.store.journal.read(task.topic, task.seq, PAGE):
            for entry in entries:
                task.apply(entry)
            if len(entries) < PAGE:
                return

    def read(self, id: Any) -> Task | None:
        """Return the task of an id from a client; None for an unknown or expired task."""
        if not isinstance(id, str) or not _ID.fullmatch(id):
            return None
        task = Task(id)
        self.catch_up(task)
        return task if task.owner and task.seconds_left(self.store.now()) > 0 else None
