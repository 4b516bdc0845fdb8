"""The ledger: limits of each principal in bytes and in things, the same for all processes of one store."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from patchbay.catalogue.contents import ledger as ledger_module
from patchbay.catalogue.contents.ledger import (
    CALL_IDS,
    SESSION_CHANGES,
    STORED,
    KeptMessages,
    Ledger,
    Limit,
    Used,
)
from patchbay.errors import OverQuota, StaleUpdate
from patchbay.store import Store
from patchbay.stores import open_store

HOUR = 3600.0


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(str(request.param), tmp_path)
    yield opened
    opened.close()


def limited(store: Store, size: int | None = None, things: int | None = None) -> Ledger:
    """A process with the same limits for every principal and account."""
    return Ledger(store.journal, lambda principal, account: Limit(size, things))


def add(ledger: Ledger, size: int, principal: str = "ann", account: str = SESSION_CHANGES, keep: float = HOUR) -> None:
    """Add a thing of `size` bytes."""
    row = ledger.row(principal, account, "", size, keep, things=1)
    ledger.add(principal, account, [("thing", b"x" * size, keep)], row)


def store_thing(ledger: Ledger, name: str, size: int) -> None:
    """Store a thing that gives way to newer ones."""
    ledger_row = ledger.row("ann", STORED, f"stream/{name}", size, HOUR)
    assert ledger._journal.append_all([(f"stream/{name}", b"x" * size, HOUR), ledger_row], {})
    ledger.make_room("ann")


def kept_names(store: Store, names: Iterator[str] | list[str]) -> list[str]:
    return [name for name in names if store.journal.read(f"stream/{name}")]


def test_what_exceeds_a_limit_is_refused_and_not_stored(store: Store) -> None:
    ledger = limited(store, things=3)
    for _ in range(3):
        add(ledger, 1)
    with pytest.raises(OverQuota, match="each caller may have 3 subscriptions and other changes") as refused:
        add(ledger, 1)
    assert refused.value.retry_after == ledger_module.RETRY_SECONDS
    assert len(store.journal.read("thing")) == 3
    add(ledger, 1, "ben")
    add(ledger, 1, account=CALL_IDS)


def test_bytes_have_a_limit_of_their_own(store: Store) -> None:
    ledger = limited(store, size=100, things=50)
    add(ledger, 60)
    with pytest.raises(OverQuota, match="changes of sessions of 100 bytes"):
        add(ledger, 41)
    add(ledger, 40)
    assert ledger.used("ann", SESSION_CHANGES) == Used(100, 2)


def test_all_processes_count_together(store: Store) -> None:
    one, other = limited(store, things=4), limited(store, things=4)
    for ledger in (one, other, one, other):
        add(ledger, 1)
    for ledger in (one, other, limited(store, things=4)):
        with pytest.raises(OverQuota):
            add(ledger, 1)


def test_many_threads_of_two_processes_never_pass_a_limit(store: Store) -> None:
    ledgers = [limited(store, things=10), limited(store, things=10)]

    def attempt(number: int) -> bool:
        try:
            add(ledgers[number % 2], 1)
        except OverQuota:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(40))) == 10
    assert len(store.journal.read("thing")) == 10


def test_what_expires_makes_room(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "RECOUNT_SECONDS", 0.0)
    ledger = limited(store, things=2)
    add(ledger, 1, keep=0)
    add(ledger, 1, keep=0)
    store.journal.sweep()
    add(ledger, 1)
    add(ledger, 1)
    with pytest.raises(OverQuota):
        add(ledger, 1)


def test_a_check_counts_nothing(store: Store) -> None:
    ledger = limited(store, size=10, things=1)
    for _ in range(3):
        ledger.check("ann", CALL_IDS, 10, 1)
    with pytest.raises(OverQuota, match="send calls without"):
        ledger.check("ann", CALL_IDS, 11, 1)
    Ledger(store.journal).check("ann", CALL_IDS, 10**12, 10**12)


def test_another_writer_of_the_same_topic_is_told_apart_from_another_writer_of_the_account(store: Store) -> None:
    ledger = limited(store, things=10)
    last = store.journal.append("call", b"opened")
    row = ledger.row("ann", CALL_IDS, "", 1, HOUR, things=1)
    add(limited(store), 1, account=CALL_IDS)
    assert len(ledger.add("ann", CALL_IDS, [("call", b"1", HOUR)], row, {"call": last})) == 1
    with pytest.raises(StaleUpdate):
        ledger.add("ann", CALL_IDS, [("call", b"2", HOUR)], row, {"call": last})
    assert [entry.data for entry in store.journal.read("call")] == [b"opened", b"1"]


def test_the_oldest_stored_things_give_way(store: Store) -> None:
    ledger, names = limited(store, size=100), [str(number) for number in range(6)]
    for name in names:
        store_thing(ledger, name, 30)
    assert kept_names(store, names) == ["3", "4", "5"]
    assert ledger.used("ann", STORED) == Used(90, 3)


def test_the_newest_thing_stays_also_when_it_is_larger_than_the_limit(store: Store) -> None:
    ledger = limited(store, size=100)
    store_thing(ledger, "small", 30)
    store_thing(ledger, "huge", 300)
    assert kept_names(store, ["small", "huge"]) == ["huge"]


def test_a_number_of_things_gives_way_for_a_while_at_once(store: Store) -> None:
    ledger, names = limited(store, things=32), [str(number) for number in range(100)]
    for name in names:
        store_thing(ledger, name, 1)
        assert ledger.used("ann", STORED).things <= 32
    kept = kept_names(store, names)
    assert 30 <= len(kept) <= 32 and kept == names[-len(kept) :]


def test_a_growing_stream_is_one_thing_with_its_newest_size(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "SETTLE_BYTES", 10)
    ledger = limited(store)
    kept = KeptMessages(ledger, "ann", "stream/grows", HOUR)
    for size in count(1):
        rows = kept.grow(size, is_last=size == 7)
        store.journal.append_all([("stream/grows", b"x" * size, HOUR), *rows], {})
        if size == 7:
            break
    assert ledger.used("ann", STORED) == Used(sum(range(8)), 1)
    assert len(store.journal.read(ledger_module.topic_of("ann", STORED))) == 3
