"""The audit chain in the store: one order over several writers, signed heads, deletion of rows, what rows reach."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import orjson
import pytest
from multiformats import CID as CID_PARSER

from patchbay.access.audit import chain as chains
from patchbay.access.audit.chain import (
    AuditChain,
    Batch,
    find_row,
    first_row,
    newest_rows,
    reached_cids,
    read_newest_lines,
)
from patchbay.access.audit.verification import verify
from patchbay.catalogue.contents.collection import Collector
from patchbay.errors import ContentError, StoreAway
from patchbay.store import Journal
from patchbay.stores import open_store
from patchbay.stores.memory import MemoryJournal, MemoryStore
from tests.access.audit.chains import CID, call, exported, made_journal, signer
from tests.checkout import ROOT
from tests.clocks import Clock
from tests.waiting import until

WRITER = """
import sys
from pathlib import Path
from patchbay.access.audit.chain import AuditChain
from patchbay.stores import open_store
from tests.access.audit.chains import call, signer

store = open_store("sqlite", Path(sys.argv[1]))
chain = AuditChain(store.journal, signer())
print("ready", flush=True)
number = 0
while sys.argv[2] == "endless" or number < int(sys.argv[2]):
    chain.append([call(one, principal=sys.argv[3]) for one in range(number, number + 3)])
    number += 3
store.close()
"""


def start_writer(folder: Path, rows: str, name: str) -> subprocess.Popen[str]:
    """Start a process that appends rows to the chain in a folder."""
    command = [sys.executable, "-c", WRITER, str(folder), rows, name]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_two_processes_write_one_chain_and_one_that_is_killed_leaves_a_chain_that_verifies(tmp_path: Path) -> None:
    """Issue 16: two workers, kill -9 in the middle."""
    open_store("sqlite", tmp_path).close()
    killed, other = start_writer(tmp_path, "endless", "first"), start_writer(tmp_path, "120", "second")
    store = open_store("sqlite", tmp_path)
    try:
        until(lambda: {row.get("principal") for row in newest_rows(store.journal, 10_000)} >= {"first", "second"})
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        assert other.wait(60) == 0
        AuditChain(store.journal, signer()).sign()
        found = exported(store.journal)
        verdict = verify(found, signer().public)
        assert verdict.ok, verdict
        writers = [orjson.loads(line).get("principal") for line in found]
        assert writers.count("second") == 120
        assert writers.count("first") % 3 == 0, "a batch is in the chain as a whole"
    finally:
        killed.kill()
        killed.communicate()
        other.communicate()
        store.close()


def test_threads_with_chains_of_their_own_write_one_order() -> None:
    journal = MemoryStore().journal

    def write(name: str) -> None:
        own = AuditChain(journal, signer())
        for number in range(40):
            own.append([call(number, principal=name)])

    threads = [threading.Thread(target=write, args=(f"writer{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verdict = verify(exported(journal), is_running=True)
    assert verdict.ok and verdict.rows - verdict.heads == 160


class ContestedJournal(MemoryJournal):
    """A journal in which another writer is first, once: between the look at the tip and the append."""

    rival: Callable[[], None] | None = None

    def append_all(self, entries: Sequence[tuple[str, bytes, float | None]], last: Mapping[str, int]) -> list[int]:
        rival, self.rival = self.rival, None
        if rival is not None:
            rival()
        return super().append_all(entries, last)


def test_a_writer_that_was_not_first_links_its_rows_behind_those_of_the_other() -> None:
    journal = ContestedJournal()
    slow, quick = AuditChain(journal, signer()), AuditChain(journal, signer())
    slow.append([call(0, principal="slow")])
    journal.rival = lambda: quick.append([call(1, principal="quick")])
    slow.append([call(2, principal="slow")])
    slow.sign()
    found = exported(journal)
    assert verify(found, signer().public).ok
    writers = [row["principal"] for row in map(orjson.loads, found) if "principal" in row]
    assert writers == ["slow", "quick", "slow"]


class UnansweredJournal(MemoryJournal):
    """A journal that does not answer the first append after `lose` is set: its entries are stored, lost, or stored
    when the next append arrives.
    """

    lose = ""

    def append_all(self, entries: Sequence[tuple[str, bytes, float | None]], last: Mapping[str, int]) -> list[int]:
        how, self.lose = self.lose, ""
        if how == "late":
            self.late = entries, last
        elif how == "stored":
            super().append_all(entries, last)
        elif late := self.__dict__.pop("late", None):
            super().append_all(*late)
        if how:
            raise StoreAway("no answer")
        return super().append_all(entries, last)


@pytest.mark.parametrize("rows_before", [0, 3])
@pytest.mark.parametrize("how", ["stored", "lost", "late"])
def test_a_batch_whose_answer_was_lost_is_in_the_chain_once_when_it_is_given_again(how: str, rows_before: int) -> None:
    """35.6: other writers append meanwhile."""
    journal = UnansweredJournal()
    chain, other = AuditChain(journal, signer()), AuditChain(journal, signer())
    for number in range(rows_before):
        chain.append([call(number, principal="before")])
    batch, journal.lose = Batch([call(7, principal="again"), call(8, principal="again")]), how
    with pytest.raises(StoreAway):
        chain.append_batch(batch)
    if how != "late":
        other.append([call(9, principal="other")])
    for _ in range(2):
        chain.append_batch(batch)
    chain.append([call(10, principal="after")])
    found = [row["principal"] for row in map(orjson.loads, exported(journal)) if row["kind"] == "call"]
    assert found.count("again") == 2 and found.count("before") == rows_before and found[-1] == "after"
    assert verify(exported(journal), is_running=True).ok


def test_a_head_is_signed_after_enough_rows_and_after_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "HEAD_ROWS", 10)
    clock = Clock(monkeypatch)
    journal = MemoryStore().journal
    chain = AuditChain(journal, signer())

    def heads() -> list[int]:
        rows = newest_rows(journal, 100)
        return [row["seq"] for row in reversed(rows) if row["kind"] == "head"]

    for number in range(9):
        chain.append([call(number)])
    assert heads() == [1]
    chain.append([call(10)])
    assert heads() == [1, 12]
    clock.now += chains.HEAD_SECONDS
    chain.append([call(11)])
    assert heads() == [1, 12, 14]
    chain.sign()
    assert heads() == [1, 12, 14]


def test_another_writer_continues_the_count_of_unsigned_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "HEAD_ROWS", 6)
    journal = MemoryStore().journal
    first, second = AuditChain(journal, signer()), AuditChain(journal, signer())
    for _ in range(3):
        first.append([call(1)])
        second.append([call(2)])
    assert [row["kind"] for row in newest_rows(journal, 2)] == ["head", "call"]


def test_rows_are_deleted_only_up_to_a_signed_head_and_the_export_says_where_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ACCESS 7: retention."""
    clock = Clock(monkeypatch)
    journal = MemoryStore().journal
    chain = AuditChain(journal, signer())
    for day in range(4):
        clock.now += 24 * 3600
        chain.append([call(day), call(day)])
        chain.sign()
        clock.now += 60
        chain.append([call(day)])
    before = [orjson.loads(line)["seq"] for line in exported(journal)]
    deleted = chain.prune(clock.now - 1.5 * 24 * 3600)
    first = first_row(journal)
    assert first is not None and first["kind"] == "head" and deleted == first["seq"] - 1 > 0
    note = next(row for row in newest_rows(journal, 3) if row["kind"] == "pruned")
    assert (note["first"], note["rows"]) == (first["seq"], deleted)
    chain.sign()
    verdict = verify(exported(journal))
    assert verdict.ok and verdict.first == first["seq"]
    assert f"{deleted} rows before it are not in the file" in verdict.sentence()
    assert chain.prune(clock.now - 1.5 * 24 * 3600) == 0
    assert before[-1] < verdict.last
    since = exported(journal, clock.now - 10)
    assert orjson.loads(since[0])["kind"] == "head" and verify(since).ok and len(since) < verdict.rows


def test_a_row_is_found_by_its_seq() -> None:
    journal = made_journal(40, batch=7)
    rows = [orjson.loads(line) for line in exported(journal)]
    assert [find_row(journal, row["seq"]) for row in rows] == rows
    assert find_row(journal, 0) is find_row(journal, len(rows) + 1) is None
    assert newest_rows(journal, 5) == rows[:-6:-1]


def test_the_newest_lines_begin_at_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "HEAD_ROWS", 10)
    journal = made_journal(100, batch=5)
    found = read_newest_lines(journal, 30)
    assert 30 <= len(found) < 60
    verdict = verify(line + b"\n" for line in found)
    assert verdict.ok and verdict.rows == len(found) and verdict.last == last_seq(journal)


def last_seq(journal: Journal) -> int:
    return int(newest_rows(journal, 1)[0]["seq"])


def test_a_failing_store_loses_no_link(tmp_path: Path) -> None:
    store = open_store("sqlite", tmp_path)
    chain = AuditChain(store.journal, signer())
    chain.append([call(1)])
    store.close()
    with pytest.raises(ContentError):
        chain.append([call(2)])
    store = open_store("sqlite", tmp_path)
    AuditChain(store.journal, signer()).append([call(3)])
    assert verify(exported(store.journal), is_running=True).rows == 3
    store.close()


def test_a_collection_keeps_what_a_row_of_the_chain_names_until_the_row_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Issue 16: the collection must not remove what kept records reach."""
    clock = Clock(monkeypatch)
    store = MemoryStore()
    part = store.blobs.put(b"a part")
    definition = store.blobs.put(b"a definition with " + part.encode())
    lost = store.blobs.put(b"lost")
    chain = AuditChain(store.journal, signer())
    result = store.blobs.put(b"a result")
    chain.append([call(1, result=canonical_hex(result), definition=definition, name="bafkrei" + "z" * 52)])
    chain.sign()
    clock.now += 10 * 24 * 3600
    collector = Collector(store, 3600.0, lambda: reached_cids(store.journal))
    assert reached_cids(store.journal) == {definition, CID, result}
    assert collector.collect().count == 1 and store.blobs.missing([definition, part, result, lost]) == [lost]
    chain.append([call(2)])
    chain.sign()
    clock.now += 60
    assert chain.prune(clock.now) > 0
    assert collector.collect().count == 3 and len(store.blobs.missing([definition, part, result])) == 3


def canonical_hex(cid: str) -> str:
    """A CID in base16, as the rows of calls have those of arguments and results."""
    return str(CID_PARSER.decode(cid).set(base="base16"))
