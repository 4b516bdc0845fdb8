"""Records of calls: how they are kept in the journal, found again, and shown.

One entry of the journal topic `activity` holds the records of some calls that one process wrote at once, oldest first;
a record's id is `<seq of the entry>-<place in it>`. Entries are JSON, compressed where that pays, and last only as long
as the settings say: arguments and results are in them, never in the blob store, where nothing is ever forgotten.
Sources: DESIGN section 10; REQUIREMENTS 1 (who, what, when).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from hashlib import sha256
from math import inf
from typing import Any

import orjson

from patchbay.activity.call_recording import CallRecording, digest_of
from patchbay.activity.retention import mode_of
from patchbay.cid import cid_of, cid_of_digest
from patchbay.errors import InvalidParams
from patchbay.store import Journal, JournalEntry
from patchbay.topics import ACTIVITY

MIN_COMPRESSED_BYTES = 2048
"""Bytes of an entry that are not worth compressing."""

PAGE = 50
"""Entries that are read at once."""

SEARCHED = 50_000
"""Records that one search looks at; whoever wants to look further goes on from where it stopped."""

MAX_NAME_CHARACTERS = 512
"""Characters that are kept of a name, and of a client's name."""

OUTCOMES = ("ok", "is_error", "error", "cancelled", "timeout", "asked", "task")
"""How a call can end: as its tool wanted, with `isError`, with a JSON-RPC error, without an answer, by its deadline,
with a question to the caller, by going on as a task."""

_ID = re.compile(r"([0-9]{1,18})-([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class EventSummary:
    """One event of a call: milliseconds since the call began, its kind, and a few words where contents are kept."""

    ms: float
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Record:
    """One call. `at` is Unix time in seconds; `ms` and `first_ms` (until the first event) are milliseconds.

    `events` counts what the activation said, its ending too; `size` is about how many bytes the answer has. `arguments`
    and `answer` are JSON, and None where they were not kept; their CIDs are of that JSON, in canonical form. `moments`
    are the first of the events. `session` and `task` are digests of ids, which open nothing.
    """

    id: str
    at: float
    ms: float
    first_ms: float | None
    way: str
    endpoint: str
    method: str
    server: str
    version: str
    definition: str | None
    name: str
    digest: str | None
    outcome: str
    code: int | None
    events: int
    progress: int
    size: int
    principal: str
    session: str | None
    client: str | None
    revision: str | None
    trace: str | None
    task: str | None
    arguments: Any
    arguments_cid: str | None
    answer: Any
    answer_cid: str | None
    moments: tuple[EventSummary, ...] = ()

    def shown(self) -> dict[str, Any]:
        """The record as a JSON object, with its time also as ISO 8601."""
        values = {name: getattr(self, name) for name in _FIELDS}
        values["moments"] = [{"ms": each.ms, "kind": each.kind, "words": each.words} for each in self.moments]
        return {"id": self.id, "time": datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds")} | values

    def for_strangers(self) -> Record:
        """What others than the operator may see: no arguments, no answers, no CIDs of them, no words of events.

        The name stays where the server listed it, which its digest says; any other name is what a caller wrote.
        """
        return replace(
            self,
            name=self.name if self.digest is not None else "",
            arguments=None,
            arguments_cid=None,
            answer=None,
            answer_cid=None,
            moments=tuple(EventSummary(each.ms, each.kind, "") for each in self.moments),
        )

    def summary(self) -> dict[str, Any]:
        """The same without arguments, answer and moments, for lists."""
        return {name: value for name, value in self.shown().items() if name not in ("arguments", "answer", "moments")}


_FIELDS = tuple(row.name for row in fields(Record) if row.name != "moments")
WIDTH = len(_FIELDS) - 1
"""Values of a kept record before its moments."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records are wanted: of a server, a tool (or prompt, or resource), an outcome, between two Unix times.

    `for_strangers` says that others than the operator ask: what they may not see cannot be searched for either.
    """

    server: str = ""
    tool: str = ""
    outcome: str = ""
    since: float = 0.0
    until: float = inf
    for_strangers: bool = False

    def shown(self, record: Record) -> Record:
        """A record as those who ask may see it."""
        return record.for_strangers() if self.for_strangers else record

    def fits(self, record: Record) -> bool:
        """Whether a record, as it is shown, is one of them."""
        return (
            (not self.server or record.server == self.server)
            and (not self.tool or record.name == self.tool)
            and (not self.outcome or record.outcome == self.outcome)
            and self.since <= record.at < self.until
        )


@dataclass(frozen=True, slots=True)
class Page:
    """Records, newest first; `next` is where the next page begins (`before`), None when there are no more."""

    records: list[Record]
    next: str | None


def row_of(run: CallRecording, mode: str) -> list[Any]:
    """A run that has ended as it is kept: the fields of Record in their order, without its id.

    Whole milliseconds and microseconds stand for the times, SHA-256 for CIDs: the writer has to be quick.
    """
    server, descriptor, wire = run.server, run.named, run.wire
    mode = mode_of(server, descriptor, mode)
    return [
        int(run.at * 1000),
        int((run.ended - run.begun) * 1e6),
        int((run.first - run.begun) * 1e6) if run.first else None,
        wire.way or ("in process" if wire.headers is None else "http"),
        wire.endpoint,
        run.method,
        server.name,
        server.version,
        server.definition,
        (descriptor.name if descriptor is not None else run.name)[:MAX_NAME_CHARACTERS],
        descriptor.digest if descriptor is not None else None,
        run.outcome,
        run.code,
        run.events,
        run.progress,
        run.size,
        wire.principal,
        _session(run),
        _client(run),
        run.revision or None,
        run.trace.id if run.trace is not None else None,
        run.task,
        *_contents(run.arguments, mode),
        *_contents(run.answer, mode),
        [[int((at - run.begun) * 1e6), kind, words if mode == "keep" else ""] for at, kind, words in run.moments or ()],
    ]


def _session(run: CallRecording) -> str | None:
    """The digest of the session, or of the connection, that a call came by."""
    id = run.session.nonce if run.session is not None else run.wire.connection
    return digest_of(id) if id is not None else None


def _client(run: CallRecording) -> str | None:
    """`name version` of whoever calls, where it said so."""
    info = run.client if run.client is not None else run.session.client if run.session is not None else None
    if isinstance(info, str):
        return info[:MAX_NAME_CHARACTERS] or None
    if not isinstance(info, Mapping):
        return None
    told = " ".join(str(info[key]) for key in ("name", "version") if isinstance(info.get(key), str))
    return told[:MAX_NAME_CHARACTERS] or None


def _contents(data: bytes | None, mode: str) -> tuple[str | None, str | None]:
    """JSON text and digest (hexadecimal) as they are kept: one of them, or neither."""
    if data is None or mode == "none":
        return None, None
    return (data.decode(), None) if mode == "keep" else (None, sha256(data).hexdigest())


def encoded(rows: list[list[Any]]) -> bytes:
    """Rows as the data of one entry."""
    try:
        data = orjson.dumps(rows)
    except TypeError:  # a tool may say half a surrogate pair, or an integer beyond 64 bits; the others' records stay
        data = json.dumps(rows, ensure_ascii=False).encode("utf-8", "replace")
    return data if len(data) < MIN_COMPRESSED_BYTES else zlib.compress(data, 1)


def records_in(entry: JournalEntry, contents: bool = True) -> list[Record]:
    """The records of one entry, oldest first; without `contents` their arguments, answers, CIDs and moments are left
    out."""
    return [_record(f"{entry.seq}-{place}", row, contents) for place, row in enumerate(_rows(entry))]


def _newest_first(entry: JournalEntry, contents: bool, below: int | None = None) -> Iterator[Record]:
    """The same one by one from the end, or from below a place: only what is asked for is made."""
    rows = _rows(entry)[:below]
    for place in range(len(rows) - 1, -1, -1):
        yield _record(f"{entry.seq}-{place}", rows[place], contents)


def _rows(entry: JournalEntry) -> list[list[Any]]:
    rows: list[list[Any]] = orjson.loads(entry.data if entry.data[:1] == b"[" else zlib.decompress(entry.data))
    return rows


def _record(id: str, row: list[Any], contents: bool) -> Record:
    # Records of older versions end before the moments.
    at, took, first, *plain = row[: WIDTH - 4]
    values: list[Any] = [id, at / 1000, took / 1000, None if first is None else first / 1000, *plain]
    if not contents:
        return Record(*values, *[None] * 4)
    arguments, arguments_digest, answer, answer_digest = row[WIDTH - 4 : WIDTH]
    # What takes longest of all is to write CIDs down.
    values += [*_told(arguments, arguments_digest), *_told(answer, answer_digest)]
    moments = row[WIDTH] if len(row) > WIDTH else ()
    return Record(*values, *[tuple(EventSummary(us / 1000, kind, words) for us, kind, words in moments)])


def _told(text: str | None, digest: str | None) -> tuple[Any, str | None]:
    if text is not None:
        return orjson.loads(text), cid_of(text.encode())
    return None, cid_of_digest(bytes.fromhex(digest)) if digest is not None else None


def recent(journal: Journal, wanted: Filter, limit: int, before: str | None = None, contents: bool = True) -> Page:
    """The newest records that are wanted, at most `limit`, older than `before`. Raises InvalidParams."""
    found: list[Record] = []
    last = None
    for looked, record in enumerate(_backwards(journal, before, contents)):
        if len(found) >= limit or looked >= SEARCHED or record.at < wanted.since - 3600:
            # An hour of grace: records are in the order of their ends, and `since` is about beginnings.
            return Page(found, None if record.at < wanted.since - 3600 else last)
        last = record.id
        shown = wanted.shown(record)
        if wanted.fits(shown):
            found.append(shown)
    return Page(found, None)


def _backwards(journal: Journal, before: str | None, contents: bool) -> Iterator[Record]:
    """Every record, newest first, beginning below one."""
    seq: int | None = None
    if before is not None:
        seq, place = parsed(before)
        entry = next(iter(journal.tail(ACTIVITY, 1, seq + 1)), None)
        if entry is not None and entry.seq == seq:
            yield from _newest_first(entry, contents, place)
    while entries := journal.tail(ACTIVITY, PAGE, seq):
        for entry in entries:
            yield from _newest_first(entry, contents)
        seq = entries[-1].seq


def find(journal: Journal, id: str) -> Record | None:
    """One record. Raises InvalidParams for what is no record's id."""
    seq, place = parsed(id)
    entry = next(iter(journal.tail(ACTIVITY, 1, seq + 1)), None)
    if entry is None or entry.seq != seq:
        return None
    records = records_in(entry)
    return records[place] if place < len(records) else None


def parsed(id: str) -> tuple[int, int]:
    """The two numbers of a record's id. Raises InvalidParams."""
    parts = _ID.fullmatch(id)
    if parts is None:
        raise InvalidParams(f"{id!r:.60} is no record's id; it looks like 120-3")
    return int(parts[1]), int(parts[2])
