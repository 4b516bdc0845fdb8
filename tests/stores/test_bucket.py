"""Large contents of a store in PostgreSQL are objects of a bucket, which may be away, slow, full or damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from patchbay.cid import cid_of
from patchbay.errors import ConfigError, ContentError, CorruptBlob, StoreAway
from patchbay.stores import open_store
from patchbay.stores.copying import copy_store
from patchbay.stores.postgresql import PostgresqlStore
from patchbay.stores.postgresql.bucket import Bucket
from tests.buckets import PASSWORD, BucketServer
from tests.clocks import DatabaseClock

LARGE = b"large" * 300_000


@pytest.fixture
def store(database: str, bucket: str) -> Iterator[PostgresqlStore]:
    with closing(PostgresqlStore(database, blobs=bucket)) as opened:
        yield opened


def in_rows(database: str) -> list[str]:
    """Return the CIDs whose bytes are in PostgreSQL."""
    with psycopg.connect(database) as connection:
        return [row[0] for row in connection.execute("SELECT cid FROM blobs WHERE data IS NOT NULL ORDER BY cid")]


def test_contents_above_one_mebibyte_are_in_the_bucket_and_smaller_ones_are_rows(
    store: PostgresqlStore, database: str, bucket: str, bucket_server: BucketServer
) -> None:
    """35.20"""
    small, edge, large = store.blobs.put_many([b"small", bytes(1024 * 1024), LARGE])
    assert bucket_server.keys(bucket) == [large]
    assert in_rows(database) == sorted([small, edge])
    assert store.blobs.put(LARGE) == store.blobs.put(LARGE, large) == large
    assert store.blobs.get(large) == LARGE and store.blobs.missing([large]) == []
    assert store.blobs.get_many([small, large]) == {small: b"small"}
    store.names.move({"a": large}, "me", "test")
    assert store.collection.size([small, large]).size == len(LARGE) + 5


def test_a_content_from_before_the_bucket_moves_there_when_it_is_stored_again(
    database: str, bucket: str, bucket_server: BucketServer
) -> None:
    """35.20"""
    with closing(PostgresqlStore(database)) as without:
        cid = without.blobs.put(LARGE)
    with closing(PostgresqlStore(database, blobs=bucket)) as store:
        assert store.blobs.get(cid) == LARGE and bucket_server.keys(bucket) == []
        store.blobs.put(LARGE)
        assert store.blobs.get(cid) == LARGE and bucket_server.keys(bucket) == [cid]
    assert in_rows(database) == []


def test_a_hub_without_the_bucket_says_which_setting_is_missing(store: PostgresqlStore, database: str) -> None:
    cid = store.blobs.put(LARGE)
    with closing(PostgresqlStore(database)) as without, pytest.raises(ContentError, match="the setting --blobs"):
        without.blobs.get(cid)


def test_damaged_and_missing_objects_are_noticed_and_repaired_by_storing_the_content_again(
    store: PostgresqlStore, bucket: str, bucket_server: BucketServer
) -> None:
    """35.20"""
    cid = store.blobs.put(LARGE)
    bucket_server.replace(bucket, cid, LARGE[:-1] + b"!")
    with pytest.raises(CorruptBlob, match="store the content again"):
        store.blobs.get(cid)
    store.blobs.put(LARGE)
    assert store.blobs.get(cid) == LARGE
    Bucket(bucket).delete(cid)
    with pytest.raises(CorruptBlob, match="is missing in the bucket"):
        store.blobs.get(cid)


def test_a_collection_deletes_objects_and_what_a_writer_left_behind(
    store: PostgresqlStore, database: str, bucket: str, bucket_server: BucketServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.20: the object of a writer that died before it made the row is deleted later."""
    clock = DatabaseClock(monkeypatch, database)
    kept, unneeded = store.blobs.put_many([LARGE, LARGE + b"2"])
    monkeypatch.setattr(store._database, "run", broken_run(store))
    with pytest.raises(RuntimeError):
        store.blobs.put(LARGE + b"3")
    monkeypatch.undo()
    clock = DatabaseClock(monkeypatch, database)
    assert bucket_server.keys(bucket) == sorted([kept, unneeded, cid_of(LARGE + b"3")])
    clock.now += 7200
    assert store.collection.collect([unneeded], clock.now - 10, 0).count == 1
    clock.now += 1
    store.collection.give_back()
    assert bucket_server.keys(bucket) == [kept]
    assert store.blobs.get(kept) == LARGE and store.blobs.missing([unneeded]) == [unneeded]


def broken_run(store: PostgresqlStore) -> object:
    """Return a `run` that dies when rows are made, after the object was written."""
    run = store._database.run

    def dying(work: object, patience: float | None = None) -> object:
        if patience is None:
            raise RuntimeError("the writer dies")
        return run(work, patience)  # type: ignore[arg-type]

    return dying


def test_a_content_that_is_stored_again_while_its_object_is_deleted_is_kept(
    store: PostgresqlStore, database: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.20: the clean-up takes away the object and the mark of a writer that was too slow; it writes again."""
    cid = cid_of(LARGE)
    put = Bucket.put
    times: list[str] = []

    def slow_put(self: Bucket, key: str, data: bytes) -> None:
        put(self, key, data)
        times.append(key)
        if len(times) == 1:
            with psycopg.connect(database, autocommit=True) as connection:
                connection.execute("UPDATE bucket_garbage SET until = 0")
            store.collection.give_back()
            assert not self.has(key)

    monkeypatch.setattr(Bucket, "put", slow_put)
    assert store.blobs.put(LARGE) == cid
    assert times == [cid, cid] and store.blobs.get(cid) == LARGE


def test_a_bucket_that_is_gone_is_said_with_503_and_nothing_is_lost(
    store: PostgresqlStore, bucket_server: BucketServer
) -> None:
    """35.20: small contents are stored meanwhile; afterwards it works without a restart."""
    before = store.blobs.put(LARGE)
    bucket_server.stop()
    try:
        for use in (lambda: store.blobs.put(LARGE + b"4"), lambda: store.blobs.get(before)):
            with pytest.raises(StoreAway, match=r"the bucket s3://hubs/test-\d+ does not") as caught:
                use()
            assert (caught.value.status, caught.value.retry_after) == (503, 5)
            assert PASSWORD not in caught.value.message
        assert store.blobs.missing([cid_of(LARGE + b"4")]) == [cid_of(LARGE + b"4")]
        assert store.blobs.get(store.blobs.put(b"small")) == b"small"
        assert store.check() is None
    finally:
        bucket_server.start()
    assert store.blobs.get(before) == LARGE
    assert store.blobs.get(store.blobs.put(LARGE + b"4")) == LARGE + b"4"


def test_a_bucket_that_does_not_answer_is_left_after_its_time_limit(
    database: str, bucket: str, bucket_server: BucketServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.20"""
    monkeypatch.setattr("patchbay.stores.postgresql.bucket.REQUEST_SECONDS", 0.5)
    monkeypatch.setattr("patchbay.stores.postgresql.bucket.RETRY_SECONDS", 0.5)
    with closing(PostgresqlStore(database, blobs=bucket)) as store:
        bucket_server.hold(True)
        try:
            with pytest.raises(StoreAway, match="does not take contents"):
                store.blobs.put(LARGE)
        finally:
            bucket_server.hold(False)
    with closing(PostgresqlStore(database, blobs=bucket)) as store:
        monkeypatch.setattr("patchbay.stores.postgresql.bucket.REQUEST_SECONDS", 20.0)
        assert store.blobs.get(store.blobs.put(LARGE)) == LARGE


def test_a_full_bucket_is_said_and_what_was_acknowledged_is_there(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.20"""
    with ExitStack() as stack:
        server = BucketServer(is_small=True)
        stack.callback(server.close)
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        store = stack.enter_context(closing(PostgresqlStore(database, blobs=server.new_prefix())))
        acknowledged = []
        with pytest.raises(StoreAway, match="does not take contents"):
            for number in range(200):
                data = os.urandom(4) * 500_000 + b"%d" % number
                acknowledged.append((store.blobs.put(data), data))
        assert acknowledged and store.blobs.count() == len(acknowledged)
        for cid, data in acknowledged:
            assert store.blobs.get(cid) == data


def test_wrong_credentials_are_named_but_not_shown(
    store: PostgresqlStore, database: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    with closing(PostgresqlStore(database, blobs=bucket)) as other:
        with pytest.raises(StoreAway, match=r"refuses this hub: check AWS_ACCESS_KEY_ID") as caught:
            other.blobs.put(LARGE)
        assert "another-secret" not in caught.value.message and PASSWORD not in caught.value.message


@pytest.mark.parametrize("address", ["bucket/prefix", "s3://", "s3://key:secret@bucket/x", "s3://bucket/x?a=b"])
def test_an_address_that_is_no_bucket_is_refused(address: str, database: str) -> None:
    with pytest.raises(ConfigError, match="expected s3://BUCKET/PREFIX") as caught:
        PostgresqlStore(database, blobs=address)
    assert "secret@" not in caught.value.message


def test_a_copy_leads_large_contents_into_the_bucket_and_back(
    tmp_path: Path, database: str, bucket: str, bucket_server: BucketServer
) -> None:
    """35.17"""
    with (
        closing(open_store("sqlite", tmp_path / "first")) as first,
        closing(PostgresqlStore(database, blobs=bucket)) as there,
        closing(open_store("sqlite", tmp_path / "second")) as second,
    ):
        cids = first.blobs.put_many([LARGE, b"small", LARGE + b"2"])
        first.names.move({"root": cids[0]}, "me", "test")
        done = copy_store(first, there)
        assert bucket_server.keys(bucket) == sorted([cids[0], cids[2]])
        assert copy_store(there, second) == done
        assert second.blobs.get(cids[2]) == LARGE + b"2"
