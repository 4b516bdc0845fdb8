"""The record of a run in the journal: its entries, and the state that every process folds them to.

    suspended  its head, and its snapshot, which is sealed with the key of the hub and bound to the head
    replied    the answers to the questions of its tools, and what its caller declined, sealed
    claimed    a process goes on with it
    began      that process makes a call now
    answered   the result of that call, sealed
    ended      its outcome, sealed, without the snapshot; also of a run that was cancelled
    fetched    its caller got the outcome

An entry is a byte for its kind, a line of JSON, and what is sealed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from patchbay.access.approvals import APPROVAL_SECONDS
from patchbay.catalogue.servers.script_tools import RUN
from patchbay.jsonrpc import dump_json
from patchbay.store import JournalEntry

SUSPENDED, DECIDED, RUNNING, DONE, FAILED, EXPIRED = "suspended", "decided", "running", "done", "failed", "expired"
CANCELLED = "cancelled"
"""The states of a run. DECIDED has a decision about each of its calls, and no process goes on with it yet."""

SUSPENDED_SECONDS = 2 * APPROVAL_SECONDS
"""Seconds that a suspended run is kept: until its decision, and until it has gone on."""

KEPT_SECONDS = 24 * 3600.0
"""Seconds that the outcome of a run is kept and shown."""

PAGE = 1000
"""Entries of the journal that are read at a time."""


class Kind:
    """The kinds of entries."""

    SUSPENDED, REPLIED, CLAIMED, BEGAN, ANSWERED, ENDED, FETCHED = b"s", b"r", b"c", b"b", b"a", b"e", b"f"


def make_entry(kind: bytes, fields: Mapping[str, Any], sealed: bytes = b"") -> bytes:
    """Return an entry of the record of a run."""
    return kind + orjson.dumps(fields) + b"\n" + sealed


@dataclass(frozen=True, slots=True)
class RunHead:
    """What is stored unsealed of a run; its contents are sealed, and bound to this.

    `server` is the name of the server at whose endpoint it runs, "" for all servers, and `version` the version of that.
    `tool` is the tool of that server whose call began the run: `run_script`, or a saved script.
    `number` counts how often the run was suspended. `question` is the id of the question about approvals that it waits
    for, "" without one, and `until` the Unix time at which that expires. `script` is the digest of the script and its
    inputs, `began` a Unix time. `asks` is the number of calls whose tools ask questions; `is_answered` says that all of
    these have answers. `accounts` names the accounts that its caller has to connect first (`accounts_of`). `size` is
    that of the snapshot in bytes, and of the outcome of a run that has ended: 0 for one that is no longer kept.
    """

    id: str
    principal: str
    server: str
    version: str
    number: int
    question: str
    script: str
    began: float
    until: float
    size: int = 0
    ended: float = 0.0
    state: str = SUSPENDED
    is_fetched: bool = False
    tool: str = RUN
    asks: int = 0
    is_answered: bool = False
    accounts: str = ""

    def about(self) -> bytes:
        """Return the words that a sealed snapshot is bound to."""
        where = [self.server, self.version, self.tool]
        bound = [self.id, self.principal, *where, self.number, self.question, self.script]
        return dump_json(["suspended", *bound, *([self.asks] if self.asks else [])])

    def waits_for_answers(self, now: float) -> bool:
        """Whether tools have asked questions that may still be answered."""
        return bool(self.asks) and not self.is_answered and not self.ended and now < self.until


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `calls` are the rows of its calls; `failure` is why it failed, "" if it did not."""

    printed: str
    value: Any
    calls: list[dict[str, Any]]
    failure: str = ""


@dataclass(slots=True)
class RunState:
    """The state of one run. `answers` has by the digest of a call what is known of each time it was made since.

    `reply` has the sealed answers to the questions of its tools.
    """

    head: RunHead | None = None
    sealed: bytes = b""
    reply: bytes = b""
    owner: str = ""
    answers: dict[str, list[bytes]] = field(default_factory=dict)
    outcome: bytes | None = None
    is_damaged: bool = False
    seq: int = 0

    def apply(self, entry: JournalEntry) -> None:
        """Apply one entry. One that this hub cannot have written damages the run."""
        self.seq = entry.seq
        kind, (line, _, rest) = entry.data[:1], entry.data[1:].partition(b"\n")
        try:
            if self.outcome is None:
                self._apply(kind, orjson.loads(line), rest)
            elif kind == Kind.FETCHED and self.head is not None:
                self.head = replace(self.head, is_fetched=True)
        except (ValueError, TypeError, KeyError):
            self.is_damaged = True

    def _apply(self, kind: bytes, fields: Any, rest: bytes) -> None:
        if kind == Kind.SUSPENDED:
            before, self.head = self.head, RunHead(**fields)
            # An older snapshot that somebody appended again has an older number.
            if before is not None and self.head.number != before.number + 1:
                self.is_damaged = True
            self.sealed, self.reply, self.owner, self.answers = rest, b"", "", {}
        elif kind == Kind.REPLIED:
            if self.head is not None and fields["number"] == self.head.number:
                changes = {name: fields[name] for name in ("is_answered", "accounts")}
                self.head, self.reply = replace(self.head, **changes), rest
        elif kind == Kind.CLAIMED:
            self.owner = fields["owner"]
        elif kind == Kind.BEGAN:
            self.answers.setdefault(fields["call"], []).append(b"")
        elif kind == Kind.ANSWERED:
            unknown = self.answers.setdefault(fields["call"], [])
            if b"" in unknown:
                unknown.remove(b"")
            unknown.insert(0, rest)
        elif kind == Kind.ENDED:
            self.head, self.outcome = RunHead(**fields), rest
