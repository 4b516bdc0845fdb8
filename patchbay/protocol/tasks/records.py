"""What is remembered of a task: its journal entries, the state they fold into, and which process runs it.

The journal topic `task/<id>` is the whole truth. Its entries are `made`, `asked`, `answered`, `cancel` and
`ended`; any process may append, and every process folds them to the same state, because the first
`ended` stands and an answer counts only while its question is open. After each entry the bus says so on
the topic of the same name: a hint, which may be lost.

The `made` entry names the process that runs the task. When that process is lost (`process_liveness.py`), the next
process that reads one of its tasks ends it as failed. So no task stays "working" without a process, and a process that
was only slow finds its task ended and abandons it.
Sources: SPEC-DIGEST 1.14 (tasks); SEP-2663; DESIGN section 1 (journal and bus).
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from patchbay.jsonrpc import Notification, encode
from patchbay.protocol.tasks.process_liveness import ProcessLiveness
from patchbay.store import JournalEntry, Store

TOPIC = "task/"

POLL_MILLISECONDS = 500
"""Milliseconds that a client is told to wait between two looks."""

PAGE = 1000
"""Entries read at once."""

_ID = re.compile(r"[A-Za-z0-9_-]{16,64}")


@dataclass(slots=True)
class Task:
    """One task as its entries say so far. Times are Unix time in seconds, `ttl` is seconds from `created`.

    `pending` are questions without an answer, `answers` what was answered, both by the key on the wire.
    `outcome` is `{"result"}` of a completed and `{"error"}` of a failed task.
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
    cancelling: bool = False
    ended: str | None = None
    outcome: dict[str, Any] = field(default_factory=dict)
    message: str | None = None
    seq: int = 0

    @property
    def status(self) -> str:
        """One of the five words of the protocol."""
        return self.ended or ("input_required" if self.pending else "working")

    @property
    def topic(self) -> str:
        """Where its entries and hints are."""
        return TOPIC + self.id

    def left(self) -> float:
        """Seconds until it may be forgotten."""
        return self.created + self.ttl - time.time()

    def take(self, entry: JournalEntry) -> None:
        """Take one entry in."""
        said = orjson.loads(entry.data)
        kind, params = said["method"], said.get("params", {})
        self.seq = entry.seq
        if self.ended is not None:
            return
        self.updated = entry.at
        if kind == "made":
            self.principal, self.endpoint, self.owner = params["principal"], params["endpoint"], params["owner"]
            self.created, self.ttl = entry.at, params["ttl"]
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

    def shown(self) -> dict[str, Any]:
        """The members that every sight of a task has."""
        seen: dict[str, Any] = {"taskId": self.id, "status": self.status}
        if self.message:
            seen["statusMessage"] = self.message
        moments = {"createdAt": _moment(self.created), "lastUpdatedAt": _moment(self.updated)}
        return seen | moments | {"ttlMs": round(self.ttl * 1000), "pollIntervalMs": POLL_MILLISECONDS}

    def detailed(self) -> dict[str, Any]:
        """The task with what its status brings along (DetailedTask)."""
        if self.ended is not None:
            return self.shown() | self.outcome
        return self.shown() | ({"inputRequests": dict(self.pending)} if self.pending else {})


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TaskStore:
    """Reads and writes tasks; `liveness` identifies this process. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.liveness = ProcessLiveness(store)

    def make(self, principal: str, endpoint: str, ttl: float) -> Task:
        """A new task that this process runs; every process can read it when this returns."""
        task = Task(secrets.token_urlsafe(24), ttl=ttl, created=time.time())
        made = {"principal": principal, "endpoint": endpoint, "owner": self.liveness.process, "ttl": ttl}
        self.append(task, "made", made)
        self.catch_up(task)
        return task

    def append(self, task: Task, kind: str, params: dict[str, Any]) -> None:
        """Write an entry, then say so. It lasts as long as the task."""
        # The entry of the task itself goes first: what is left without it is no task.
        keep = max(task.left(), 0.0) + (0.0 if kind == "made" else 1.0)
        self.store.journal.append(task.topic, encode(Notification(kind, params)), keep)
        self.store.bus.publish(task.topic)

    def end(self, task: Task, status: str, **more: Any) -> None:
        """Write how a task ended; when it had ended before, that stands."""
        self.append(task, "ended", {"status": status} | {name: value for name, value in more.items() if value})

    def catch_up(self, task: Task) -> None:
        """Take in what was written since the last look."""
        while entries := self.store.journal.read(task.topic, task.seq, PAGE):
            for entry in entries:
                task.take(entry)
            if len(entries) < PAGE:
                return

    def read(self, id: Any) -> Task | None:
        """The task of an id that somebody sent, None when there is none or its time is over."""
        if not isinstance(id, str) or not _ID.fullmatch(id):
            return None
        task = Task(id)
        self.catch_up(task)
        return task if task.owner and task.left() > 0 else None
