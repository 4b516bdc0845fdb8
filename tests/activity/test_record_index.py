"""The index of records: a search finds the same records with it, and skips the ranges that hold none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.activity import record_index, recorder
from patchbay.activity.record_index import RANGE_RECORDS, extend_index, summarize_rows
from patchbay.activity.recorder import Activity
from patchbay.activity.records import SEARCHED, Filter, Record, recent
from patchbay.activity.stored_rows import encode_rows
from patchbay.catalogue.servers.server import Server
from patchbay.errors import StaleUpdate
from patchbay.jsonrpc import Result
from patchbay.messages.callers import TransportInfo
from patchbay.settings import Settings
from patchbay.store import JournalEntry
from patchbay.stores.memory import MemoryJournal, MemoryStore
from patchbay.topics import ACTIVITY, ACTIVITY_INDEX

SECONDS = 3600.0
RECORDS_PER_ENTRY = 100


class CountingJournal(MemoryJournal):
    """A journal that counts the entries of records that it returns."""

    returned = 0

    def read(self, topic: str, after: int = 0, limit: int = 1000) -> list[JournalEntry]:
        return self._counted(topic, super().read(topic, after, limit))

    def tail(self, topic: str, limit: int = 1000, before: int | None = None) -> list[JournalEntry]:
        return self._counted(topic, super().tail(topic, limit, before))

    def _counted(self, topic: str, found: list[JournalEntry]) -> list[JournalEntry]:
        self.returned += len(found) if topic == ACTIVITY else 0
        return found


def row(at: int, server: str = "s", name: str = "t", outcome: str = "ok", digest: str | None = "d") -> list[Any]:
    plain = [at, 1000, None, "http", server, "tools/call", server, "v", None, name, digest, outcome]
    return [*plain, None, 1, 0, 10, "p", None, None, None, None, None, None, None, None, None, []]


def write(journal: MemoryJournal, rows: Sequence[list[Any]]) -> None:
    journal.append(ACTIVITY, encode_rows(list(rows)), SECONDS)


def index(journal: MemoryJournal) -> None:
    while extend_index(journal, SECONDS):
        pass


def pages(journal: MemoryJournal, wanted: Filter, limit: int = 1000) -> list[Record]:
    """Return the records of all pages."""
    found: list[Record] = []
    before = None
    while True:
        page = recent(journal, wanted, limit, before)
        found += page.records
        before = page.next
        if before is None:
            return found


def test_a_search_with_a_rare_filter_reads_only_the_range_that_has_it() -> None:
    """Issue 14, item 6: without the index this search reads every entry, and stops before the record."""
    journal = CountingJournal()
    entries = 3 * SEARCHED // RECORDS_PER_ENTRY
    for number in range(entries):
        write(journal, [row(number, name="rare" if number == 7 and not place else "t") for place in range(100)])
        if number % 50 == 0:  # entries of other topics and summaries stand between the ranges
            index(journal)
            journal.append("other", b"")
    index(journal)
    for wanted, count in (
        (Filter(tool="rare"), 1),
        (Filter(until=0.0001), 100),
        (Filter(server="absent"), 0),
        (Filter(tool="rare", outcome="timeout"), 0),
        (Filter(server="s", tool="absent"), 0),
    ):
        journal.returned = 0
        page = recent(journal, wanted, 1000)
        assert (len(page.records), page.next) == (count, None), wanted
        assert journal.returned <= 2 * RANGE_RECORDS // RECORDS_PER_ENTRY, wanted


NAMES = st.sampled_from(["a", "b", "c"])
ROWS = st.lists(st.builds(row, st.integers(0, 50), NAMES, NAMES, NAMES, st.sampled_from(["d", None])), max_size=6)
STEPS = st.lists(st.one_of(ROWS.filter(bool), st.sampled_from(["index", "trim", "trim index"])), max_size=30)
FILTERS = st.builds(
    Filter,
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "a", "c"]),
    st.sampled_from(["", "b", "absent"]),
    until=st.sampled_from([0.02, 0.04, float("inf")]),
    for_strangers=st.booleans(),
)


@settings(deadline=None, max_examples=150)
@given(STEPS, FILTERS, st.integers(1, 5), st.sampled_from([4, 100]))
def test_a_search_finds_what_a_look_at_every_record_finds(
    steps: list[Any], wanted: Filter, limit: int, range_records: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_index, "RANGE_RECORDS", range_records)
        patch.setattr(record_index, "ENTRIES_PER_READ", 2)
        patch.setattr(record_index, "SUMMARIES_PER_READ", 2)
        patch.setattr(record_index, "MAX_KEYS", 3)
        journal = MemoryJournal()
        for step in steps:
            if step == "index":
                index(journal)
            elif step in ("trim", "trim index"):
                topic = ACTIVITY if step == "trim" else ACTIVITY_INDEX
                journal.trim(topic, sum(len(each.data) for each in journal.tail(topic)) // 2)
            else:
                write(journal, step)
        found = pages(journal, wanted, limit)
    plain = MemoryJournal()
    seqs = {}
    for entry in journal.read(ACTIVITY):
        seqs[plain.append(ACTIVITY, entry.data)] = entry.seq
    every = [record for record in pages(plain, Filter(for_strangers=wanted.for_strangers)) if wanted.fits(record)]
    ids = [f"{seqs[int(record.id.partition('-')[0])]}-{record.id.partition('-')[2]}" for record in every]
    assert [record.id for record in found] == ids


def test_only_one_of_two_writers_summarizes_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = MemoryJournal()
    write(journal, [row(1)] * RANGE_RECORDS)
    append_all = journal.append_all

    def second(*given: Any) -> list[int]:
        monkeypatch.setattr(journal, "append_all", append_all)
        index(journal)
        return append_all(*given)

    monkeypatch.setattr(journal, "append_all", second)
    assert extend_index(journal, SECONDS), "the first writer looks again"
    assert not extend_index(journal, SECONDS)
    assert len(journal.read(ACTIVITY_INDEX)) == 1
    with pytest.raises(StaleUpdate):
        append_all([(ACTIVITY_INDEX, b"[]", None)], {ACTIVITY_INDEX: 0})


def call(activity: Activity, number: int) -> None:
    server = Server("alone", "bafkversion", "static")
    for _ in range(number):
        activity.begin("tools/call", "t", server, TransportInfo("alone"), {}).end(Result(1, {"content": []}))
    activity.flush()


def test_a_hub_summarizes_its_records_and_those_of_an_older_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "TRIM", -1.0)
    store = MemoryStore()
    for number in range(20):
        store.journal.append(ACTIVITY, encode_rows([row(number)] * (RANGE_RECORDS // 2)), SECONDS)
    activity = Activity(store, Settings(data=tmp_path))
    for _ in range(3):
        call(activity, 1)
    summaries = store.journal.read(ACTIVITY_INDEX)
    assert len(summaries) == 10
    call(activity, RANGE_RECORDS)
    assert len(store.journal.read(ACTIVITY_INDEX)) == 11
    small = Activity(store, Settings(data=tmp_path, activity_size=2 * 1024 * 1024 // 1024))
    call(small, 1)
    assert len(store.journal.read(ACTIVITY_INDEX)) < 11
    activity.close()
    small.close()


def test_the_writer_of_an_entry_gives_its_summary_and_the_entry_is_not_decoded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Issue 14, item 2: the record of a call costs less."""
    rows = [row(place, name=f"t{place % 3}\ud800", outcome="is_error") for place in range(RANGE_RECORDS)]
    read, known = MemoryJournal(), MemoryJournal()
    write(read, rows)
    write(known, rows)
    index(read)
    monkeypatch.setattr(record_index, "rows_of", lambda _: pytest.fail("an entry was decoded"))
    assert not extend_index(known, SECONDS, {1: summarize_rows(rows)})
    assert [each.data for each in known.read(ACTIVITY_INDEX)] == [each.data for each in read.read(ACTIVITY_INDEX)] != []


def test_a_hub_does_not_decode_its_own_records_for_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 14, item 2: the record of a call costs less."""
    store = MemoryStore()
    activity = Activity(store, Settings(data=tmp_path))
    monkeypatch.setattr(record_index, "rows_of", lambda _: pytest.fail("an entry was decoded"))
    call(activity, 2 * RANGE_RECORDS)
    assert store.journal.read(ACTIVITY_INDEX)
    activity.close()
