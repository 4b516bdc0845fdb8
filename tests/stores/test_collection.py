"""How unneeded blobs are deleted, in every store."""

import os
from pathlib import Path

import pytest

from patchbay.cid import cid_of
from patchbay.errors import MissingBlob, StaleUpdate
from patchbay.sqlite import sqlite3
from patchbay.store import DATABASE_FILE, Collected, Store
from patchbay.stores import open_store
from tests.clocks import Clock

ABSENT = cid_of(b"this was never put")


def test_only_blobs_that_are_old_enough_are_deleted(store: Store, clock: Clock) -> None:
    old = store.blobs.put(b"old")
    clock.now += 1000
    young = store.blobs.put(b"young")
    assert store.collection.older_than(clock.now - 500) == [old]
    assert store.collection.collect([old, young, ABSENT], clock.now - 500, 0) == Collected(1, 3)
    assert store.blobs.missing([old, young]) == [old]


def test_putting_known_bytes_starts_their_grace_time_again(store: Store, clock: Clock) -> None:
    cid = store.blobs.put(b"again")
    clock.now += 5000
    assert store.blobs.put(b"again") == cid
    assert store.collection.older_than(clock.now - 1000) == []
    clock.now += 5000
    assert store.blobs.put_many([b"other", b"again"]) == [cid_of(b"other"), cid]
    assert store.collection.older_than(clock.now - 1000) == []


def test_renewing_a_blob_starts_its_grace_time_again(store: Store, clock: Clock) -> None:
    renewed, left = store.blobs.put_many([b"renewed", b"left"])
    clock.now += 5000
    store.blobs.renew([renewed, ABSENT])
    assert store.collection.older_than(clock.now - 1000) == [left]


def test_nothing_is_deleted_when_a_name_has_moved_meanwhile(store: Store, clock: Clock) -> None:
    cid = store.blobs.put(b"wanted after all")
    clock.now += 1000
    store.names.move({"variables/a": cid}, "me", "test")
    with pytest.raises(StaleUpdate):
        store.collection.collect([cid], clock.now, 0)
    assert store.blobs.get(cid) == b"wanted after all"


def test_a_name_cannot_be_pointed_at_a_blob_that_was_deleted(store: Store, clock: Clock) -> None:
    cid = store.blobs.put(b"gone")
    clock.now += 1000
    store.collection.collect([cid], clock.now, 0)
    with pytest.raises(MissingBlob):
        store.names.move({"variables/a": cid}, "me", "test")


def test_sizes_count_each_blob_once(store: Store) -> None:
    first, second = store.blobs.put_many([b"12345", b"678"])
    assert store.collection.size([first, second, first, ABSENT]) == Collected(2, 8)


def test_space_goes_back_to_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    store = open_store("sqlite", tmp_path)
    cids = store.blobs.put_many(os.urandom(100_000) for _ in range(50))
    clock.now += 1000
    store.collection.collect(cids, clock.now, 0)
    store.collection.give_back(whole=True)
    store.close()
    assert (tmp_path / DATABASE_FILE).stat().st_size < 1_000_000


def test_a_database_of_version_1_is_brought_up_to_date_and_can_give_space_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    store = open_store("sqlite", tmp_path)
    cids = store.blobs.put_many(os.urandom(100_000) for _ in range(20))
    store.close()
    with sqlite3.connect(tmp_path / DATABASE_FILE) as connection:
        connection.execute("DROP TABLE blob_times")
        connection.execute("PRAGMA user_version = 1")
        connection.execute("PRAGMA auto_vacuum = 0")
        connection.commit()
        connection.execute("VACUUM")
    connection.close()
    upgraded = open_store("sqlite", tmp_path)
    new = upgraded.blobs.put(os.urandom(2_000_000))
    clock.now += 1000
    assert upgraded.collection.older_than(clock.now) == [new], "blobs of before stay: profiles may refer to them"
    assert upgraded.collection.collect([*cids, new], clock.now, 0).count == 1
    assert upgraded.collection.give_back(whole=True) > 1_000_000
    assert upgraded.blobs.missing(cids) == []
    upgraded.close()
