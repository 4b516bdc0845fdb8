"""Summaries of ranges of records, so that a search skips the ranges that hold no selected record.

The journal topic `activity/index` holds one summary for each range of consecutive entries of the topic `activity` with
at least `RANGE_RECORDS` records: the first and the last entry, the times, and which servers, names and outcomes occur.
Entries without a summary are searched themselves: the newest ones, those of stores of older versions until a writer has
summarized them, and those whose summary is deleted. A summary without its entries is harmless: it is deleted later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import orjson

from patchbay.activity.stored_rows import NAME_PLACE, OUTCOME_PLACE, SERVER_PLACE, present_outcome, rows_of
from patchbay.descriptors import encodable
from patchbay.errors import StaleUpdate
from patchbay.store import Journal, JournalEntry
from patchbay.topics import ACTIVITY, ACTIVITY_INDEX

RANGE_RECORDS = 1000
"""Records of one range, at least; the last entry may exceed it."""

MAX_KEYS = 256
"""Servers, names and outcomes of one summary, at most; a range with more may hold any record."""

MAX_SUMMARIZED_RECORDS = 5000
"""Records that one call of `extend_index` reads, at least one range."""

SUMMARIES_PER_READ = 200
ENTRIES_PER_READ = 50

Key = tuple[str, str, str]
"""Server, name and outcome."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """The values of selected records (empty: any) and the Unix times between which their calls began."""

    server: str
    name: str
    outcome: str
    since: float
    until: float

    def needles(self) -> list[bytes]:
        """Return the values as they stand in a summary."""
        return [orjson.dumps(encodable(each)) for each in (self.server, self.name, self.outcome) if each]


@dataclass(frozen=True, slots=True)
class Summary:
    """What one range holds: all records in entries with a seq from `first`, which follows the range before, to `last`.

    `begin` and `end` are the earliest and latest beginning of a call in Unix milliseconds. `keys` is None for a range
    with too many.
    """

    first: int
    last: int
    entries: int
    records: int
    begin: int
    end: int
    keys: Sequence[Key] | None

    def to_bytes(self) -> bytes:
        """Return the data of the journal entry."""
        return orjson.dumps([self.first, self.last, self.entries, self.records, self.begin, self.end, self.keys])

    def may_hold(self, wanted: RecordFilter) -> bool:
        """Whether the range can hold a selected record."""
        if self.end / 1000 < wanted.since or self.begin / 1000 >= wanted.until:
            return False
        return self.keys is None or any(
            (not wanted.server or server == wanted.server)
            and (not wanted.name or name == wanted.name)
            and (not wanted.outcome or outcome == wanted.outcome)
            for server, name, outcome in self.keys
        )


@dataclass(frozen=True, slots=True)
class EntrySummary:
    """What one entry holds, with the names of `Summary`."""

    records: int
    begin: int
    end: int
    keys: frozenset[Key]


def summarize_rows(rows: Sequence[Sequence[Any]]) -> EntrySummary:
    """Return the summary of the rows of one entry."""
    keys = {(row[SERVER_PLACE], row[NAME_PLACE], row[OUTCOME_PLACE]) for row in rows}
    times = [row[0] for row in rows]
    found = frozenset((server, encodable(name), present_outcome(outcome)) for server, name, outcome in keys)
    return EntrySummary(len(rows), min(times), max(times), found)


def extend_index(journal: Journal, keep: float, known: Mapping[int, EntrySummary] = MappingProxyType({})) -> bool:
    """Summarize entries without a summary, oldest first; return whether another range is complete.

    `keep` is the lifetime of records in seconds. `known` has summaries of entries by their seq, from their writer; the
    other entries are read. Writers may call this at once; one of them is first.
    """
    newest = journal.tail(ACTIVITY_INDEX, 1)
    after = summarized = _parse(newest[0]).last if newest else 0
    made, looked, waiting = list[Summary](), 0, 0
    pending: list[EntrySummary] = []
    while looked < MAX_SUMMARIZED_RECORDS and (entries := journal.read(ACTIVITY, after, ENTRIES_PER_READ)):
        for entry in entries:
            pending.append(known.get(entry.seq) or summarize_rows(rows_of(entry)))
            waiting += pending[-1].records
            if waiting >= RANGE_RECORDS:
                made.append(_join(pending, summarized + 1, entry.seq))
                summarized = entry.seq
                looked, waiting, pending = looked + waiting, 0, []
        after = entries[-1].seq
    if made:
        try:
            last = {ACTIVITY_INDEX: newest[0].seq if newest else 0}
            journal.append_all([(ACTIVITY_INDEX, each.to_bytes(), keep) for each in made], last)
        except StaleUpdate:
            return True
    return looked >= MAX_SUMMARIZED_RECORDS


def entries_backwards(journal: Journal, wanted: RecordFilter, before: int | None) -> Iterator[JournalEntry]:
    """Yield the entries that can hold a selected record, newest first, with a seq below `before` if given."""
    needles = wanted.needles()
    for entry in _summaries(journal):
        summary = _parse(entry)
        if before is not None and summary.first >= before:
            continue
        yield from _between(journal, summary.last, before)
        end = summary.last + 1 if before is None else min(before, summary.last + 1)
        # Most ranges lack a rare value, and comparing bytes is the fastest way to see that.
        has_values = summary.keys is None or all(needle in entry.data for needle in needles)
        if has_values and summary.may_hold(wanted):
            entries = journal.read(ACTIVITY, summary.first - 1, summary.entries)
            yield from (each for each in reversed(entries) if each.seq < end)
        before = summary.first
    yield from _between(journal, 0, before)


def _summaries(journal: Journal) -> Iterator[JournalEntry]:
    """Yield the entries of all summaries, newest first."""
    before: int | None = None
    while entries := journal.tail(ACTIVITY_INDEX, SUMMARIES_PER_READ, before):
        yield from entries
        before = entries[-1].seq


def _between(journal: Journal, after: int, before: int | None) -> Iterator[JournalEntry]:
    """Yield the entries between two seqs, newest first, both excluded."""
    if before is None and journal.last(ACTIVITY) <= after:
        return
    while before is None or before > after + 1:
        entries = journal.tail(ACTIVITY, ENTRIES_PER_READ, before)
        for entry in entries:
            if entry.seq <= after:
                return
            yield entry
        if not entries:
            return
        before = entries[-1].seq


def _join(pending: Sequence[EntrySummary], first: int, last: int) -> Summary:
    """Return the summary of a range from those of its entries."""
    keys = sorted(frozenset[Key]().union(*(each.keys for each in pending)))
    return Summary(
        first,
        last,
        len(pending),
        sum(each.records for each in pending),
        min(each.begin for each in pending),
        max(each.end for each in pending),
        keys if len(keys) <= MAX_KEYS else None,
    )


def _parse(entry: JournalEntry) -> Summary:
    return Summary(*orjson.loads(entry.data))
