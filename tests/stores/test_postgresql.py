"""What only the store in PostgreSQL has to stand: connections that end, a server that ends, lost answers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from patchbay.cid import cid_of
from patchbay.errors import ConfigError, ContentError, StaleUpdate, StoreAway
from patchbay.stores import migrate_store, open_store
from patchbay.stores.postgresql import PostgresqlStore, bus_reader, schema
from patchbay.stores.postgresql import database as connections
from patchbay.stores.postgresql.bus import PostgresqlBus
from tests.databases import PostgresqlServer
from tests.relays import Relay
from tests.waiting import BOUND, until

WRITERS, WRITES = 8, 40


@pytest.fixture
def store(database: str) -> Iterator[PostgresqlStore]:
    with closing(PostgresqlStore(database)) as opened:
        yield opened


def write_all(store: PostgresqlStore, progress: threading.Semaphore) -> list[str]:
    """Write in many threads; return what was acknowledged. Releases `progress` for each."""

    def write(writer: int) -> list[str]:
        acknowledged = []
        for number in range(WRITES):
            word = f"{writer}/{number}"
            store.journal.append("all", word.encode())
            store.names.move({f"names/{writer}": store.blobs.put(word.encode())}, "writer", word)
            acknowledged.append(word)
            progress.release()
        return acknowledged

    with ThreadPoolExecutor(WRITERS) as pool:
        return sorted(word for words in pool.map(write, range(WRITERS)) for word in words)


def stored(store: PostgresqlStore) -> tuple[list[str], list[str]]:
    """Return what the journal and the history of names have."""
    entries = sorted(entry.data.decode() for entry in store.journal.read("all"))
    return entries, sorted(move.why for move in store.names.past(limit=1000))


def test_every_write_is_there_once_when_connections_end_all_the_time(
    store: PostgresqlStore, postgresql: PostgresqlServer
) -> None:
    """35.7: an administrator ends every connection after each few writes."""
    progress = threading.Semaphore(0)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_all, store, progress)
        writing.add_done_callback(lambda _: progress.release(WRITERS))
        while not writing.done():
            for _ in range(WRITERS):
                assert progress.acquire(timeout=BOUND) or writing.done()
            postgresql.end_connections()
        acknowledged = writing.result()
    assert len(acknowledged) == WRITERS * WRITES
    assert stored(store) == (acknowledged, acknowledged)


def test_every_write_is_there_once_after_a_crash_of_the_server(
    store: PostgresqlStore, postgresql: PostgresqlServer
) -> None:
    """35.7: the writers wait until the server has recovered, and lose nothing."""
    progress = threading.Semaphore(0)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_all, store, progress)
        progress.acquire(timeout=BOUND)
        postgresql.stop("immediate")
        postgresql.start()
        acknowledged = writing.result()
    assert stored(store) == (acknowledged, acknowledged)
    assert store.check() is None


@pytest.mark.parametrize("word", [b"append_entries", b"move_names"])
def test_a_write_whose_answer_is_lost_is_not_repeated(database: str, postgresql: PostgresqlServer, word: bytes) -> None:
    """35.6: the answer to the commit is cut; the write is looked up by its id."""
    with Relay(postgresql.port) as relay:
        address = database.replace(f":{postgresql.port}/", f":{relay.port}/")
        with closing(PostgresqlStore(address)) as store:
            relay.cut_answer_to(word)
            first, second = store.journal.append_all([("all", b"1", None), ("other", b"2", None)], {"all": 0})
            moved = store.names.move({"a": store.blobs.put(b"1")}, "me", "once", {"a": None})
            assert relay.cuts == 1
            assert [(entry.seq, entry.data) for entry in store.journal.read("all")] == [(first, b"1")]
            assert [entry.seq for entry in store.journal.read("other")] == [second]
            assert [(move.seq, move.why) for move in store.names.past()] == [(moved, "once")]


def test_a_store_whose_database_is_away_says_so_and_works_again_by_itself(
    store: PostgresqlStore, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.8"""
    monkeypatch.setattr(connections, "RETRY_SECONDS", 0.2)
    store.journal.append("all", b"1")
    before = store.now()
    postgresql.stop()
    with pytest.raises(StoreAway, match=r"the database postgres at 127\.0\.0\.1 does not answer") as caught:
        store.journal.append("all", b"lost")
    assert (caught.value.status, caught.value.retry_after) == (503, 5)
    assert "does not answer" in str(store.check())
    assert store.now() >= before
    store.bus.publish("topic", b"waits")
    postgresql.start()
    until(lambda: store.check() is None, "the store works again")
    store.journal.append("all", b"2")
    assert [entry.data for entry in store.journal.read("all")] == [b"1", b"2"]


def test_work_whose_transaction_ended_while_this_process_was_suspended_is_done_again(
    store: PostgresqlStore, postgresql: PostgresqlServer
) -> None:
    """35.7: the server ends a transaction in which nothing happens."""
    attempts: list[int] = []

    def work(connection: connections.Connection) -> int:
        attempts.append(connection.info.backend_pid)
        with connection.transaction():
            if len(attempts) == 1:
                connection.execute("SET LOCAL idle_in_transaction_session_timeout = 1")
                until(lambda: not postgresql.has_backend(attempts[0]), "the server has ended the transaction")
            connection.execute("SELECT 1")
        return len(attempts)

    assert store.names._database.run(work) == 2  # type: ignore[attr-defined]


def test_a_silent_server_counts_as_away_and_its_writes_are_there_once_when_it_goes_on(
    database: str, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.8: connections stay open and say nothing, as those to a machine whose disk does not answer."""
    for name in ("RETRY_SECONDS", "CHECK_SECONDS", "ANSWER_SECONDS"):
        monkeypatch.setattr(connections, name, 0.5)
    with Relay(postgresql.port) as relay:
        address = database.replace(f":{postgresql.port}/", f":{relay.port}/")
        with closing(PostgresqlStore(address)) as store:
            store.journal.append("all", b"1")
            relay.hold(True)
            assert "the server did not answer for 0.5 s" in str(store.check())
            with pytest.raises(StoreAway, match="does not answer"):
                store.journal.append("all", b"in doubt")
            relay.hold(False)
            until(lambda: store.check() is None, "the store works again")
            store.journal.append("all", b"2")
            found = [entry.data for entry in store.journal.read("all")]
    assert [found.count(data) for data in (b"1", b"2")] == [1, 1] and found.count(b"in doubt") <= 1


def test_a_read_only_server_is_not_ready(store: PostgresqlStore, database: str, postgresql: PostgresqlServer) -> None:
    """35.8: a replica after a fail-over."""
    postgresql.execute("ALTER ROLE hub SET default_transaction_read_only = on")
    try:
        postgresql.end_connections()
        until(lambda: "read-only" in str(store.check()), "the store says that it is read-only")
    finally:
        with psycopg.connect(postgresql.address, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("ALTER ROLE hub RESET default_transaction_read_only")
    postgresql.end_connections()
    until(lambda: store.check() is None, "the store works again")


def send_to_and_fro(database: str, bus_address: str = "") -> None:
    """Send messages between two stores, which are what two processes on two machines have."""
    sent = [("t/1", b"%d" % number) for number in range(300)]
    with (
        closing(PostgresqlStore(database, bus_address)) as here,
        closing(PostgresqlStore(database, bus_address)) as there,
        there.bus.subscribe(["t/*"], 1000) as far,
        here.bus.subscribe(["t/*"], 1000) as near,
    ):
        for topic, message in sent:
            here.bus.publish(topic, message)
        there.bus.publish("t/2", b"back")
        for reader in (far, near):
            got = [reader.get(BOUND) for _ in range(301)]
            assert got.count(("t/2", b"back")) == 1
            assert [message for message in got if message != ("t/2", b"back")] == sent
            assert reader.get(0) is None


def test_messages_cross_processes_and_come_once_in_the_order_of_their_sender(database: str) -> None:
    """35.9"""
    send_to_and_fro(database)


def test_a_message_whose_transaction_ends_late_is_delivered(database: str) -> None:
    """35.9: a smaller number may be committed after a greater one."""
    insert = b"INSERT INTO messages (process, topic, message) VALUES ('other', 'late', '')"
    with (
        closing(PostgresqlStore(database)) as here,
        closing(PostgresqlStore(database)) as there,
        there.bus.subscribe(["*"]) as far,
        psycopg.connect(database) as slow,
    ):
        slow.execute(insert)
        here.bus.publish("early")
        assert far.get(BOUND) == ("early", b"")
        slow.commit()
        assert far.get(BOUND) == ("late", b"")
        assert far.get(0) is None


def test_a_message_is_looked_for_until_its_transaction_ends(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """35.9: also when its transaction takes longer than the least time for which an absent number is looked for."""
    monkeypatch.setattr(bus_reader, "GAP_SECONDS", 0.0)
    insert = b"INSERT INTO messages (process, topic, message) VALUES ('other', 'late', '')"
    with (
        closing(PostgresqlStore(database)) as here,
        closing(PostgresqlStore(database)) as there,
        there.bus.subscribe(["*"]) as far,
        psycopg.connect(database) as slow,
        psycopg.connect(database) as undone,
    ):
        slow.execute(insert)
        undone.execute(insert)
        undone.rollback()
        for number in range(5):  # each of them is another round of the reader
            here.bus.publish(f"early/{number}")
            assert far.get(BOUND) == (f"early/{number}", b"")
        slow.commit()
        assert far.get(BOUND) == ("late", b"")
        assert isinstance(there.bus, PostgresqlBus)
        reader = there.bus._reader
        assert reader is not None
        until(lambda: not reader._gaps, "the number that was taken back is forgotten")


def test_messages_arrive_again_after_a_crash_of_the_server(database: str, postgresql: PostgresqlServer) -> None:
    """35.9: the table of messages is empty after a crash."""
    with (
        closing(PostgresqlStore(database)) as here,
        closing(PostgresqlStore(database)) as there,
        there.bus.subscribe(["*"]) as far,
    ):
        here.bus.publish("before")
        assert far.get(BOUND) == ("before", b"")
        postgresql.stop("immediate")
        postgresql.start()
        here.bus.publish("after")
        assert far.get(BOUND) == ("after", b"")


def test_the_time_of_the_store_is_that_of_the_database(store: PostgresqlStore, database: str) -> None:
    """35.1: the clock of this machine does not matter."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            b"CREATE OR REPLACE FUNCTION store_time() RETURNS double precision LANGUAGE sql AS"
            b" 'SELECT extract(epoch FROM clock_timestamp())::float8 + 3600'"
        )
    with closing(PostgresqlStore(database)) as other:
        other.journal.append("all", b"x")
        assert 3500 < other.now() - store.now() < 3700
        assert abs(other.journal.read("all")[0].at - other.now()) < BOUND


def test_order_tokens_of_two_processes_grow(database: str) -> None:
    with closing(PostgresqlStore(database)) as here, closing(PostgresqlStore(database)) as there:
        tokens = [store.order_token() for _ in range(3) for store in (here, there)]
    assert tokens == sorted(set(tokens)) and {len(token) for token in tokens} == {16}


def test_a_database_of_another_program_or_of_a_newer_hub_is_left_alone(
    database: str, postgresql: PostgresqlServer
) -> None:
    """35.5"""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE theirs (a integer)")
        with pytest.raises(ContentError, match="belongs to another program"):
            PostgresqlStore(database)
        connection.execute("DROP TABLE theirs")
        PostgresqlStore(database).close()
        connection.execute("UPDATE patchbay_schema SET version = 99")
        with pytest.raises(ContentError, match="its schema is 99, this program knows"):
            PostgresqlStore(database)
        connection.execute("UPDATE patchbay_schema SET version = 0")


def test_many_processes_make_the_schema_at_once(database: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: PostgresqlStore(database), range(4)))
    for store in stores:
        assert store.check() is None
        store.close()


def test_an_address_with_a_password_is_refused(database: str) -> None:
    """35.4: it would be shown on pages and in the list of processes."""
    with pytest.raises(ConfigError, match="PGPASSFILE") as caught:
        PostgresqlStore("postgresql://hub:secret@127.0.0.1/db")
    assert "secret" not in caught.value.message
    with pytest.raises(ConfigError, match="expected postgresql://user@host/db"):
        PostgresqlStore("postgresql://hub@127.0.0.1/db?nonsense=1")


def test_a_content_beyond_the_limit_is_refused(store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchbay.stores.postgresql.blobs.MAX_BLOB_BYTES", 10)
    with pytest.raises(ContentError, match="has 11 bytes; a store in PostgreSQL takes up to 10"):
        store.blobs.put(b"x" * 11)
    assert store.blobs.count() == 0


def test_two_writers_of_two_topics_in_two_orders_do_not_lock_each_other_out(store: PostgresqlStore) -> None:
    """35.7: the locks of topics are taken in one order."""

    def write(writer: int) -> None:
        topics = ["a", "b"] if writer % 2 else ["b", "a"]
        for _ in range(30):
            store.journal.append_all([(topic, b"x", None) for topic in topics], {})

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    assert [len(store.journal.read(topic)) for topic in ("a", "b")] == [WRITERS * 30] * 2


def test_a_stale_write_stays_refused(store: PostgresqlStore) -> None:
    store.journal.append("all", b"1")
    with pytest.raises(StaleUpdate, match="all has a newer entry"):
        store.journal.append_all([("all", b"2", None)], {"all": 0})


def test_without_the_extra_the_setting_names_it(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """35.4"""
    for name in [name for name in sys.modules if name.startswith("patchbay.stores.postgresql")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for use in (lambda: open_store(database, tmp_path), lambda: migrate_store(database)):
        with pytest.raises(ConfigError, match=r"needs the extra `cluster`: install `patchbay-hub\[cluster\]`"):
            use()


def test_a_database_of_the_first_schema_is_refused_with_the_command_that_migrates_it_and_loses_nothing(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.1: the schema only grows."""
    monkeypatch.setattr(schema, "VERSION", 1)
    assert migrate_store(database) == (0, 1)
    with psycopg.connect(database, autocommit=True) as connection:
        kept = cid_of(b"kept")
        connection.execute("INSERT INTO blobs (cid, at, data) VALUES (%s, store_time(), %s)", (kept, b"kept"))
    monkeypatch.undo()
    with pytest.raises(ContentError, match="run `patchbay store migrate`"):
        PostgresqlStore(database)
    assert migrate_store(database) == (1, schema.VERSION)
    with closing(PostgresqlStore(database)) as store:
        assert store.blobs.get(kept) == b"kept"
        assert store.collection.size([kept]).size == 4


def test_an_opened_store_says_how_many_connections_it_uses(database: str, caplog: pytest.LogCaptureFixture) -> None:
    """35.18"""
    with caplog.at_level("INFO"), closing(PostgresqlStore(database)):
        pass
    assert "this process uses up to 8 connections, and one that listens" in caplog.text
