"""Records of calls: storing them in the journal, finding them, and showing them.

One entry of the journal topic `activity` holds a batch of records of one process, oldest first; the id of a record is
`<seq of the entry>-<place in it>`. Entries are JSON, compressed if they are long, and expire after the time in the
settings. Arguments and results are in these entries and not in the blob store, which deletes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from hashlib import sha256
from math import inf
from typing import Any

import orjson

from patchbay.access.principals import LOCAL_ID
from patchbay.activation import DISCONNECTED
from patchbay.activity.call_recording import MAX_NAME_CHARACTERS, CallRecording, digest_of
from patchbay.activity.record_index import RecordFilter, entries_backwards
from patchbay.activity.retention import mode_of
from patchbay.activity.stored_rows import (
    DIGEST_PLACE,
    NAME_PLACE,
    ORIGINS,
    OUTCOME_PLACE,
    PRINCIPAL_PLACE,
    SERVER_PLACE,
    outcome_of,
    rows_of,
)
from patchbay.cid import cid_of, cid_of_digest
from patchbay.errors import InvalidParams
from patchbay.jsonrpc import load_json
from patchbay.raised.exceptions import Raised
from patchbay.raised.forms import raised_from_json, raised_to_json
from patchbay.store import Journal, JournalEntry
from patchbay.topics import ACTIVITY

SEARCHED = 20_000
"""Limit on the records that one search examines; the next page continues from there. Records in ranges that cannot hold
a selected one (`record_index.py`) are not examined."""

OUTCOMES = ("ok", "tool_error", "error", "cancelled", "timeout", "input_required", "task")
"""The outcomes of calls: a result, a result with `isError`, a JSON-RPC error, no response after a cancellation, the
time limit reached, a question to the caller, a task that goes on."""

FAILED = ("tool_error", "error", "timeout")
"""The outcomes of calls that failed."""

FAILURES = "failed"
"""Stands for each of FAILED in a filter."""

RAISED = "raised"
"""The kind of the last moment of a stored row: its words are what the author's code raised, as JSON."""

RUN = "run"
"""The kind of the moment of a stored row that says to which run of a script a call belongs: the id of the run and, for
a call of the script, its line, its number and the depth of the run."""

REASON = "reason"
"""The kind of the moment of a stored row that says why a cancelled call ended."""

MAX_REASON_CHARACTERS = 200
"""Maximum characters of a reason that a client gave."""

_NOT_SHOWN = (RAISED, ORIGINS, RUN, REASON)
"""The kinds of moments that are no events."""

TIMES = 3
"""The times at the beginning of a stored row."""

_ID = re.compile(r"([0-9]{1,18})-([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class EventSummary:
    """One event of a call: milliseconds since the call began, its kind, and a few words if contents are stored."""

    ms: float
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Record:
    """One call. `at` is Unix time in seconds; `ms` and `first_ms` (until the first event) are milliseconds.

    `events` counts the events, the ending included; `size` is the approximate size of the answer in bytes. `arguments`
    and `answer` are JSON, None if they were not stored; their CIDs are of that JSON in canonical form. `moments` are
    the first events. `session` and `task` are digests of the ids. `raised` is what the author's code raised, for the
    operator; without messages where contents are not stored. `origins` says what is behind a tool of a toolset
    (`patchbay.descriptors.Origin`), for the operator. `run` is the id of the run of a script that the call belongs to,
    "" without one. A call of a script has its `line` there, its `number` among the calls of the run, and the `depth` of
    the run, which is 2 inside another one; these are 0 for any other call. `reason` says why a cancelled call ended, ""
    where that is not known.
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
    raised: Raised = ()
    origins: tuple[Mapping[str, str], ...] = ()
    run: str = ""
    line: int = 0
    number: int = 0
    depth: int = 0
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON object, with its time also as ISO 8601."""
        values = {name: getattr(self, name) for name in _FIELDS}
        values["moments"] = [{"ms": each.ms, "kind": each.kind, "words": each.words} for each in self.moments]
        values["raised"] = raised_to_json(self.raised)
        values["origins"] = list(self.origins)
        values["run"] = self.run
        values["line"] = self.line
        values["reason"] = self.reason
        return {"id": self.id, "time": datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds")} | values

    def for_strangers(self) -> Record:
        """Return the record for callers other than the operator, without what another caller sent or got.

        It has no arguments and answers, no CIDs of them, no words of events, and no principal. A call of a known
        principal has no name of its client, no session, no trace and no run either.

        The name stays if the server listed it, so that it has a digest; any other name is text from a caller.
        """
        is_local = self.principal == LOCAL_ID
        return replace(
            self,
            client=self.client if is_local else None,
            session=self.session if is_local else None,
            trace=self.trace if is_local else None,
            name=self.name if self.digest is not None else "",
            arguments=None,
            principal=self.principal if is_local else "",
            arguments_cid=None,
            answer=None,
            answer_cid=None,
            moments=tuple(EventSummary(each.ms, each.kind, "") for each in self.moments),
            raised=(),
            origins=(),
            run=self.run if is_local else "",
            line=self.line if is_local else 0,
            reason=self.reason if self.reason == DISCONNECTED else "",
        )

    def summary(self) -> dict[str, Any]:
        """Return the record as a JSON object without arguments, answer, moments and exceptions, for lists."""
        return {name: value for name, value in self.to_json().items() if name not in _LONG_FIELDS}


_LONG_FIELDS = ("arguments", "answer", "moments", "origins", "raised", "run", "line", "reason")
_LATE_FIELDS = ("moments", "raised", "origins", "run", "line", "number", "depth", "reason")
_FIELDS = tuple(row.name for row in fields(Record) if row.name not in _LATE_FIELDS)
_Target = tuple[str, bool, tuple[str | None, ...]]

WIDTH = len(_FIELDS) - 1
"""Values of a stored record before its moments."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects records: of a server, a tool (or prompt, or resource), an outcome, between two Unix times, of a caller.

    `outcome` may be FAILURES. `caller` is the id of a principal: a person, or `key:NAME` for a key.
    `for_strangers` says that the caller is not the operator: hidden fields cannot be searched either.
    `may_see` says whether the caller may see an entry of a server, by both names; None hides no record. `run` is the id
    of the run of a script to which the records belong.
    """

    server: str = ""
    tool: str = ""
    outcome: str = ""
    since: float = 0.0
    until: float = inf
    for_strangers: bool = False
    may_see: Callable[[str, str], bool] | None = None
    caller: str = ""
    run: str = ""

    def redact(self, record: Record) -> Record:
        """Return a record in the form for the caller."""
        return record.for_strangers() if self.for_strangers else record

    def fits_row(self, row: list[Any]) -> bool:
        """Whether the record of a stored row, in the form for the caller, is selected."""
        is_hidden = self.for_strangers and row[DIGEST_PLACE] is None
        return (
            (not self.server or row[SERVER_PLACE] == self.server)
            and (not self.tool or (row[NAME_PLACE] == self.tool and not is_hidden))
            and (not self.outcome or self._has_outcome(outcome_of(row)))
            and (not self.caller or self._is_of_caller(row[PRINCIPAL_PLACE]))
            and self.since <= row[0] / 1000 < self.until
            and (self.may_see is None or self.may_see(row[SERVER_PLACE], row[NAME_PLACE]))
            and (not self.run or _read_run(row)[0] == self.run)
        )

    def fits(self, record: Record) -> bool:
        """Whether a record, in the form for the caller, is selected."""
        return (
            (not self.server or record.server == self.server)
            and (not self.tool or record.name == self.tool)
            and (not self.outcome or self._has_outcome(record.outcome))
            and (not self.caller or self._is_of_caller(record.principal))
            and self.since <= record.at < self.until
            and (self.may_see is None or self.may_see(record.server, record.name))
            and (not self.run or record.run == self.run)
        )

    def _has_outcome(self, outcome: str) -> bool:
        return outcome in FAILED if self.outcome == FAILURES else outcome == self.outcome

    def _is_of_caller(self, principal: str) -> bool:
        """Whether a record is of the wanted caller, as far as the reader may know whose it is."""
        return principal == self.caller and (not self.for_strangers or principal == LOCAL_ID)


@dataclass(frozen=True, slots=True)
class Page:
    """Records, newest first; `next` is the value of `before` for the next page, None on the last page."""

    records: list[Record]
    next: str | None


def make_rows(runs: Sequence[CallRecording], mode: str) -> list[list[Any]]:
    """Return the stored form of finished calls: the fields of Record in order, without the id.

    Times are whole milliseconds and microseconds, and SHA-256 digests stand for CIDs, because the writer must be fast:
    what calls of one descriptor have in common is found once for a batch.
    """
    known: dict[tuple[int, int, str, str], _Target] = {}
    rows = []
    for run in runs:
        # The ids are of objects that the recordings keep alive.
        key = (id(run.server), id(run.descriptor), run.method, run.name)
        target = known.get(key)
        if target is None:
            target = known[key] = _find_target(run, mode)
        rows.append(_make_row(run, *target))
    return rows


def _find_target(run: CallRecording, mode: str) -> _Target:
    """Return what depends on what is called alone: the mode of contents, whether arguments are secret, and fields."""
    server, descriptor = run.server, run.called
    digest = descriptor.digest if descriptor is not None else None
    has_secret = descriptor is not None and descriptor.has_secret_arguments
    return (
        mode_of(server, descriptor, mode),
        has_secret,
        (
            server.name,
            server.version,
            server.definition,
            run.recorded_name,
            digest,
        ),
    )


def _make_row(run: CallRecording, mode: str, has_secret: bool, target: tuple[str | None, ...]) -> list[Any]:
    begun, first, trace = run.begun, run.first, run.trace
    given, answered, is_kept = run.arguments, run.answer, mode == "keep"
    contents: tuple[str | None, ...]
    if is_kept:
        contents = (
            *(given.decode() if given is not None else None, None),
            *(answered.decode() if answered is not None else None, None),
        )
    else:
        contents = (*_contents(given, mode), *_contents(answered, mode))
    return [
        int(run.at * 1000),
        int((run.ended - begun) * 1e6),
        int((first - begun) * 1e6) if first else None,
        run.way,
        run.endpoint,
        run.method,
        *target,
        run.outcome,
        run.code,
        run.events,
        run.progress,
        run.size,
        run.principal,
        _session(run) if run.session is not None or run.connection is not None else None,
        _client(run),
        run.revision or None,
        trace.id if trace is not None else None,
        run.task,
        *contents,
        [[int((at - begun) * 1e6), kind, words if is_kept else ""] for at, kind, words in run.moments or ()]
        + _origins_moment(run)
        + ([[0, RUN, " ".join(map(str, (run.script_run, *run.script_place)))]] if run.script_run else [])
        + _reason_moment(run, is_kept)
        + ([[0, RAISED, orjson.dumps(raised_to_json(run.raised, is_kept)).decode()]] if run.raised else []),
        0 if has_secret else run.sent,  # the size of a secret says something about it
    ]


def _origins_moment(run: CallRecording) -> list[list[Any]]:
    """Return the moment that says what is behind a called tool of a toolset; nothing for any other call."""
    text = run.descriptor.origins_json if run.descriptor is not None else ""
    return [[0, ORIGINS, text]] if text else []


def _reason_moment(run: CallRecording, is_kept: bool) -> list[list[Any]]:
    """Return the moment that says why a cancelled call ended. The words of a client are contents."""
    is_shown = is_kept or run.reason == DISCONNECTED
    return [[0, REASON, run.reason[:MAX_REASON_CHARACTERS]]] if run.reason and is_shown else []


def _session(run: CallRecording) -> str | None:
    """Return the digest of the session, or of the connection, of a call."""
    id = run.session.nonce if run.session is not None else run.connection
    return digest_of(id) if id is not None else None


def _client(run: CallRecording) -> str | None:
    """Return `name version` of the client, if it gave them."""
    info = run.client if run.client is not None else run.session.client if run.session is not None else None
    if info is None:
        return None
    if isinstance(info, str):
        return info[:MAX_NAME_CHARACTERS] or None
    if not isinstance(info, dict):
        return None
    name, version = info.get("name"), info.get("version")
    if type(name) is str and type(version) is str:
        client = f"{name} {version}"
    else:
        client = name if type(name) is str else version if type(version) is str else ""
    return client[:MAX_NAME_CHARACTERS] or None


def _contents(data: bytes | None, mode: str) -> tuple[str | None, str | None]:
    """Return None for the JSON text, and the digest (hexadecimal) in mode `digest`, where the text is not kept."""
    return None, None if data is None or mode == "none" else sha256(data).hexdigest()


def records_in(entry: JournalEntry, contents: bool = True) -> list[Record]:
    """Return the records of one entry, oldest first; without `contents` they have no contents."""
    return [_record(f"{entry.seq}-{place}", row, contents) for place, row in enumerate(rows_of(entry))]


def _record(id: str, row: list[Any], contents: bool) -> Record:
    # Records of older versions end before the moments.
    at, took, first, *plain = row[: WIDTH - 4]
    plain[OUTCOME_PLACE - TIMES] = outcome_of(row)
    values: list[Any] = [id, at / 1000, took / 1000, None if first is None else first / 1000, *plain]
    if not contents:
        return Record(*values, *[None] * 4)
    arguments, arguments_digest, answer, answer_digest = row[WIDTH - 4 : WIDTH]
    # Making the CIDs takes the most time.
    values += [*_read_content(arguments, arguments_digest), *_read_content(answer, answer_digest)]
    moments = row[WIDTH] if len(row) > WIDTH else ()
    raised = next((raised_from_json(orjson.loads(words)) for _, kind, words in moments if kind == RAISED), ())
    origins = next((tuple(orjson.loads(words)) for _, kind, words in moments if kind == ORIGINS), ())
    shown = tuple(EventSummary(us / 1000, kind, words) for us, kind, words in moments if kind not in _NOT_SHOWN)
    reason = next((words for _, kind, words in moments if kind == REASON), "")
    return Record(*[*values, shown, raised, origins, *_read_run(row), reason])


def _read_run(row: list[Any]) -> tuple[str, int, int, int]:
    """Return the run of a script to which a stored row belongs, with the line, the number and the depth there."""
    moments = row[WIDTH] if len(row) > WIDTH else ()
    run, *place = next((words for _, kind, words in moments if kind == RUN), "").split(" ")
    line, number, depth = map(int, place or (0, 0, 0))
    return run, line, number, depth


def _read_content(text: str | None, digest: str | None) -> tuple[Any, str | None]:
    if text is not None:
        return load_json(text.encode()), cid_of(text.encode())
    return None, cid_of_digest(bytes.fromhex(digest)) if digest is not None else None


def recent(journal: Journal, wanted: Filter, limit: int, before: str | None = None, contents: bool = True) -> Page:
    """Return the newest selected records, at most `limit`, older than `before`. Raises InvalidParams."""
    found: list[Record] = []
    looked = 0
    last = None
    for seq, place, row in _backwards(journal, wanted, before):
        is_too_old = _is_too_old(row, wanted)
        if len(found) >= limit or looked >= SEARCHED or is_too_old:
            return Page(found, None if is_too_old or last is None else f"{last[0]}-{last[1]}")
        looked, last = looked + 1, (seq, place)
        if wanted.fits_row(row):
            found.append(wanted.redact(_record(f"{seq}-{place}", row, contents)))
    return Page(found, None)


def rows_backwards(journal: Journal, wanted: Filter) -> Iterator[list[Any] | None]:
    """Yield the stored rows of the selected records, newest first, and None for each other record that is looked at."""
    for _, _, row in _backwards(journal, wanted, None):
        if _is_too_old(row, wanted):
            return
        yield row if wanted.fits_row(row) else None


def _is_too_old(row: list[Any], wanted: Filter) -> bool:
    """Whether this row, and so all before it, is older than the selected records.

    It looks an hour further: records are in the order of their ends, and `since` refers to beginnings.
    """
    return bool(row[0] / 1000 < wanted.since - 3600)


def _backwards(journal: Journal, wanted: Filter, before: str | None) -> Iterator[tuple[int, int, list[Any]]]:
    """Yield the rows of entries that can hold a selected record, newest first, older than `before`.

    Each row comes with the two numbers of its id.
    """
    seq, below = parsed(before) if before is not None else (None, 0)
    # The summaries of ranges have single outcomes and no callers.
    outcome = "" if wanted.outcome == FAILURES else wanted.outcome
    values = RecordFilter(wanted.server, wanted.tool, outcome, wanted.since, wanted.until)
    for entry in entries_backwards(journal, values, None if seq is None else seq + 1):
        rows = rows_of(entry)
        for place in range(min(below, len(rows)) if entry.seq == seq else len(rows))[::-1]:
            yield entry.seq, place, rows[place]


def find(journal: Journal, id: str) -> Record | None:
    """Return one record, or None. Raises InvalidParams for an invalid id."""
    seq, place = parsed(id)
    entry = next(iter(journal.tail(ACTIVITY, 1, seq + 1)), None)
    if entry is None or entry.seq != seq:
        return None
    records = records_in(entry)
    return records[place] if place < len(records) else None


def parsed(id: str) -> tuple[int, int]:
    """Return the two numbers of a record's id. Raises InvalidParams."""
    parts = _ID.fullmatch(id)
    if parts is None:
        raise InvalidParams(f"{id!r:.60} is not the id of a record; expected a form such as 120-3")
    return int(parts[1]), int(parts[2])
