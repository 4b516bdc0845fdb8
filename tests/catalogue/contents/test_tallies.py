"""Many small pieces are one row of the ledger, and their limit holds for all processes together."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from patchbay.catalogue.contents.ledger import SETTLE_BYTES, STATE_BYTES, Ledger, Limit, topic_of
from patchbay.catalogue.contents.tallies import MAX_PENDING, SHARE_OF_LIMIT, Tally
from patchbay.errors import OverQuota
from patchbay.stores.memory import MemoryStore

MOST = 1600
PIECE = MOST // SHARE_OF_LIMIT // 4

MakeTally = Callable[[int | None], Tally]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def make(store: MemoryStore) -> MakeTally:
    return lambda most: Tally(Ledger(store.journal, lambda principal, account: Limit(most)), STATE_BYTES, 3600)


def used(store: MemoryStore, principal: str = "ann") -> int:
    return Ledger(store.journal).used(principal, STATE_BYTES).bytes


def written(tally: Tally, principal: str = "ann", size: int = PIECE) -> int:
    """Count pieces until one is refused; return their bytes."""
    for number in range(10_000):
        try:
            tally.count(principal, size)
        except OverQuota as problem:
            assert f"each caller may have {MOST} bytes of changes in the state of tools" in problem.message
            return number * size
    raise AssertionError("no piece is refused")


def test_pieces_are_refused_at_the_limit(store: MemoryStore, make: MakeTally) -> None:
    tally = make(MOST)
    assert MOST <= written(tally) <= MOST + MOST // SHARE_OF_LIMIT
    assert written(tally) == 0
    assert written(tally, "ben") >= MOST


def test_two_processes_count_together(make: MakeTally) -> None:
    one, other = make(MOST), make(MOST)
    assert MOST <= written(one) + written(other) <= MOST + 2 * MOST // SHARE_OF_LIMIT


def test_many_pieces_are_one_row(store: MemoryStore, make: MakeTally) -> None:
    tally = make(None)
    for _ in range(100):
        tally.count("ann", SETTLE_BYTES // 50)
    assert len(store.journal.read(topic_of("ann", STATE_BYTES))) == 1


def test_a_large_piece_is_counted_at_once(store: MemoryStore, make: MakeTally) -> None:
    make(None).count("ann", 10 * SETTLE_BYTES)
    assert used(store) == 10 * SETTLE_BYTES


def test_threads_lose_no_piece(store: MemoryStore, make: MakeTally) -> None:
    tally = make(None)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: tally.count("ann", SETTLE_BYTES // 2), range(200)))
    tally.count("ann", SETTLE_BYTES)
    assert used(store) == 100 * SETTLE_BYTES + SETTLE_BYTES


def test_the_principals_that_wait_for_a_row_have_a_limit(make: MakeTally) -> None:
    tally = make(None)
    for number in range(2 * MAX_PENDING):
        tally.count(f"caller {number}", 1)
    assert len(tally._pending) == MAX_PENDING
