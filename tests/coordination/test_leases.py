"""Leases: which process does the regular work for all hubs on one store, and whose folder counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.contents.collection import Collector
from patchbay.catalogue.upkeep import regular_work
from patchbay.catalogue.upkeep.regular_work import Upkeep
from patchbay.coordination import leases
from patchbay.coordination.leases import Lease
from patchbay.settings import Settings
from patchbay.stores import open_store
from patchbay.stores.memory import MemoryStore
from patchbay.stores.postgresql import PostgresqlStore
from tests.clocks import DatabaseClock
from tests.databases import PostgresqlServer
from tests.waiting import until

ECHO = "def main(text: str) -> str:\n    return text\n"


@pytest.fixture
def stores(database: str) -> Iterator[tuple[PostgresqlStore, PostgresqlStore]]:
    """The stores of two machines."""
    with closing(PostgresqlStore(database)) as here, closing(PostgresqlStore(database)) as there:
        yield here, there


def test_a_lease_has_one_holder_until_it_ends_or_is_released(
    stores: tuple[PostgresqlStore, PostgresqlStore], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.11: its end is in the time of the database."""
    clock = DatabaseClock(monkeypatch, database)
    here, there = (Lease(store, "work", 60) for store in stores)
    assert (here.take(), there.take(), here.take()) == (True, False, True)
    here.release()
    assert (there.take(), here.take()) == (True, False)
    third = Lease(stores[0], "work", 60)
    clock.now += 59
    assert not third.take()
    clock.now += 2
    assert third.take()


def test_of_many_that_take_a_lease_at_once_one_has_it(stores: tuple[PostgresqlStore, PostgresqlStore]) -> None:
    begin = threading.Barrier(8)

    def take(number: int) -> bool:
        lease = Lease(stores[number % 2], "work", 60)
        begin.wait()
        return lease.take()

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(take, range(8))) == [False] * 7 + [True]


def test_a_holder_that_cannot_renew_stops_before_the_lease_ends(
    stores: tuple[PostgresqlStore, PostgresqlStore], postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.11"""
    passed = [0.0]
    monkeypatch.setattr(leases, "time", type("Clock", (), {"monotonic": staticmethod(lambda: 1000.0 + passed[0])}))
    monkeypatch.setattr("patchbay.stores.postgresql.database.RETRY_SECONDS", 0.0)
    lease = Lease(stores[0], "work", 60)
    assert lease.take()
    postgresql.stop()
    try:
        passed[0] = 59.0
        assert lease.take()
        passed[0] = 60.0
        assert not lease.take()
    finally:
        postgresql.start()
    assert lease.take()


def test_another_machine_watches_the_folder_nine_seconds_after_the_one_that_did_has_died(
    stores: tuple[PostgresqlStore, PostgresqlStore], database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.11: and is told once, so that it scans the folder at once."""
    clock = DatabaseClock(monkeypatch, database)
    monkeypatch.setattr(regular_work, "WATCH_CHECK_SECONDS", 0.0)
    here, there = (Upkeep(store, Collector(store, 60.0), threading.Event()) for store in stores)
    watchers = (here, there, here)
    assert [one.takes_over_watching(tmp_path) for one in watchers] == [True, False, False]
    clock.now += 9
    assert [there.takes_over_watching(tmp_path) for _ in range(2)] == [True, False]
    alone = Upkeep(MemoryStore(), Collector(MemoryStore(), 60.0), threading.Event())
    assert not alone.takes_over_watching(tmp_path) and alone.may_watch(tmp_path)


def test_on_one_machine_every_process_may_work() -> None:
    store = MemoryStore()
    assert Lease(store, "work", 60).take() and Lease(store, "work", 60).take()
    assert store.journal.read("leases/work") == []


def test_the_folder_of_one_machine_is_watched_and_the_others_change_nothing(database: str, tmp_path: Path) -> None:
    """35.11: a machine with another folder, or without one, removes no server."""
    with ExitStack() as stack:
        catalogues = []
        for name in ("first", "second"):
            settings = Settings(data=tmp_path, servers=tmp_path / name, store=database)
            settings.servers.mkdir()
            (settings.servers / f"{name}.py").write_text(ECHO)
            store = stack.enter_context(closing(open_store(database, tmp_path)))
            catalogue = stack.enter_context(closing(Catalogue(store, settings)))
            catalogue.start()
            catalogues.append(catalogue)
        first, second = catalogues
        until(lambda: "first" in second.served, "the other machine serves it")
        assert "second" not in first.served
        without = replace(first.settings, servers=tmp_path / "absent")
        store = stack.enter_context(closing(open_store(database, tmp_path)))
        third = stack.enter_context(closing(Catalogue(store, without)))
        first.close()
        third.start()
        assert "first" in third.served
        until(lambda: "second" in third.served, "another machine has taken over")
