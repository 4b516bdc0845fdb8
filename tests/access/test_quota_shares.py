"""The shares of quotas on a store of several machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from patchbay.access.quota_shares import QuotaShares
from patchbay.access.quotas import Quotas
from patchbay.coordination.nodes import LOST_SECONDS
from patchbay.stores.memory import MemoryStore
from patchbay.stores.postgresql import PostgresqlStore
from tests.access.test_quotas import ANN, BEN, begun, quotas
from tests.clocks import DatabaseClock
from tests.databases import PostgresqlServer

ROW = {"to": ["*"], "calls_in_flight": 6}


@pytest.fixture
def machines(database: str) -> Iterator[list[tuple[QuotaShares, Quotas]]]:
    """Three processes on three machines."""
    stores = [PostgresqlStore(database) for _ in range(3)]
    counts = [quotas(ROW) for _ in stores]
    yield [(QuotaShares(store, count), count) for store, count in zip(stores, counts, strict=True)]
    for store in stores:
        store.close()


def settle(machines: list[tuple[QuotaShares, Quotas]]) -> None:
    """Let all of them settle, until each knows of all."""
    for _ in range(2):
        for shares, _ in machines:
            shares.settle()


def test_all_machines_together_have_the_limit_and_one_alone_has_its_part(
    machines: list[tuple[QuotaShares, Quotas]],
) -> None:
    """35.20"""
    settle(machines)
    assert [begun(count, ANN) for _, count in machines] == [2, 2, 2]
    assert begun(machines[0][1], BEN) == 2


def test_the_part_of_a_machine_that_is_gone_goes_to_the_others(
    machines: list[tuple[QuotaShares, Quotas]], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.20"""
    clock = DatabaseClock(monkeypatch, database)
    settle(machines)
    assert begun(machines[0][1], ANN) == 2
    clock.now += LOST_SECONDS + 1
    settle(machines[:2])
    assert begun(machines[0][1], ANN) == 3


def test_shares_stay_while_the_database_is_away(
    machines: list[tuple[QuotaShares, Quotas]], postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.20"""
    monkeypatch.setattr("patchbay.stores.postgresql.database.RETRY_SECONDS", 0.0)
    settle(machines)
    postgresql.stop()
    try:
        machines[0][0].settle()
        assert begun(machines[0][1], ANN) == 2
    finally:
        postgresql.start()


def test_defaults_that_come_from_the_threads_of_one_machine_grow_with_the_machines(database: str) -> None:
    """35.20"""
    count = quotas(defaults={"calls_in_flight": 4, "calls_per_minute": 600}, workers=2)
    count.share(6)
    assert count.defaults == {"calls_in_flight": 12, "calls_per_minute": 600}
    assert begun(count, ANN) == 2, "a sixth of what three machines have"


def test_a_store_of_one_machine_has_no_shares() -> None:
    count = quotas(ROW, workers=2)
    store = MemoryStore()
    with closing(QuotaShares(store, count)) as shares:
        shares.start()
        assert begun(count, ANN) == 3
    assert store.journal.read("living") == []
