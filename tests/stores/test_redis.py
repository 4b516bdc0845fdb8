"""The bus over Redis: nothing is lost, doubled or out of order while its connection, or the server, goes and comes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from patchbay.errors import ConfigError
from patchbay.stores.postgresql import PostgresqlStore
from tests.redises import RedisServer
from tests.relays import Relay
from tests.stores.test_postgresql import send_to_and_fro
from tests.waiting import BOUND, until

NORMAL_SECONDS = 10.0
"""Seconds in which the bus works again."""


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A Redis that the test may stop."""
    with closing(RedisServer()) as made:
        yield made


def test_messages_cross_processes_and_come_once_in_the_order_of_their_sender(
    database: str, redis_server: RedisServer
) -> None:
    """35.9"""
    send_to_and_fro(database, redis_server.address)


def test_two_stores_on_one_redis_do_not_hear_each_other(
    database: str, postgresql: object, redis_server: RedisServer
) -> None:
    other = postgresql.new_schema()  # type: ignore[attr-defined]
    with (
        closing(PostgresqlStore(database, redis_server.address)) as here,
        closing(PostgresqlStore(database, redis_server.address)) as friend,
        closing(PostgresqlStore(other, redis_server.address)) as stranger,
        here.bus.subscribe(["*"]) as reader,
    ):
        stranger.bus.publish("theirs")
        friend.bus.publish("ours")
        assert reader.get(BOUND) == ("ours", b"")


def test_messages_of_an_outage_arrive_once_and_in_order_within_ten_seconds_after_it(
    database: str, server: RedisServer
) -> None:
    """35.9: Redis is killed and started again; readers and writers go on by themselves, and `problem` says so."""
    with (
        closing(PostgresqlStore(database, server.address)) as here,
        closing(PostgresqlStore(database, server.address)) as there,
        there.bus.subscribe(["*"], 1000) as far,
    ):
        here.bus.publish("before")
        assert far.get(BOUND) == ("before", b"")
        server.stop()
        for number in range(100):
            here.bus.publish("during", b"%d" % number)
        until(lambda: here.bus.problem() and there.bus.problem(), "both say that Redis is away")
        assert "Redis does not answer" in str(here.bus.problem())
        assert here.check() is None, "a hub goes on without Redis"
        server.start()
        begun = time.monotonic()
        here.bus.publish("after")
        got = [far.get(BOUND) for _ in range(101)]
        assert time.monotonic() - begun < NORMAL_SECONDS
        assert got == [*(("during", b"%d" % number) for number in range(100)), ("after", b"")]
        until(lambda: here.bus.problem() is None and there.bus.problem() is None, "both say that it works")


def test_a_batch_whose_answer_is_lost_is_read_once(database: str, server: RedisServer) -> None:
    """35.9: it is written again, with the same numbers."""
    with (
        Relay(server.port) as relay,
        closing(PostgresqlStore(database, f"redis://127.0.0.1:{relay.port}/0")) as here,
        closing(PostgresqlStore(database, server.address)) as there,
        there.bus.subscribe(["*"]) as far,
    ):
        relay.cut_answer_to(b"doubled")
        here.bus.publish("doubled")
        here.bus.publish("last")
        assert [far.get(BOUND), far.get(BOUND), far.get(0.2)] == [("doubled", b""), ("last", b""), None]
        assert relay.cuts == 1


def test_a_redis_that_lost_everything_is_read_from_its_beginning(database: str, server: RedisServer) -> None:
    """35.9: as after a fail-over, also where the clock of the new server is behind."""
    with (
        closing(PostgresqlStore(database, server.address)) as here,
        closing(PostgresqlStore(database, server.address)) as there,
        there.bus.subscribe(["*"]) as far,
    ):
        here.bus.publish("before")
        assert far.get(BOUND) == ("before", b"")
        [key] = server.client.keys("patchbay:*")
        server.stop()
        until(there.bus.problem, "the reader notices")
        server.close()
        server._folder.mkdir()
        server.start()
        server.client.xadd(key, {"process": b"x", "number": 1, "topic": "old clock", "message": b""}, id="1-1")
        assert far.get(BOUND) == ("old clock", b"")
        here.bus.publish("after")
        assert far.get(BOUND) == ("after", b"")


def test_a_hub_begins_and_goes_on_while_redis_is_away(database: str, server: RedisServer) -> None:
    server.stop()
    with (
        closing(PostgresqlStore(database, server.address)) as here,
        closing(PostgresqlStore(database, server.address)) as there,
        there.bus.subscribe(["*"]) as far,
        here.bus.subscribe(["*"]) as near,
    ):
        here.bus.publish("first")
        assert near.get(BOUND) == ("first", b"")
        until(there.bus.problem, "it says that Redis is away")
        server.start()
        assert far.get(BOUND) == ("first", b"")


def test_the_stream_is_bounded(database: str, server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchbay.stores.postgresql.redis_bus.MAX_ENTRIES", 100)
    with closing(PostgresqlStore(database, server.address)) as here:
        for number in range(2000):
            here.bus.publish("many", b"%d" % number)
    [key] = server.client.keys("patchbay:*")
    assert 100 <= int(server.client.xlen(key)) < 400


def test_the_password_comes_from_the_environment(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """35.9"""
    with closing(RedisServer("a-password")) as server:
        with closing(PostgresqlStore(database, server.address)) as without, without.bus.subscribe(["*"]):
            assert "does not answer" in str(without.bus.problem())
        monkeypatch.setenv("REDISCLI_AUTH", "a-password")
        with closing(PostgresqlStore(database, server.address)) as store, store.bus.subscribe(["*"]):
            assert store.bus.problem() is None
    with pytest.raises(ConfigError, match="REDISCLI_AUTH") as caught:
        PostgresqlStore(database, "redis://hub:hidden@127.0.0.1/0")
    assert "hidden" not in caught.value.message
