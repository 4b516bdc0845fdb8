"""The bus inside one process, in every kind of store."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from patchbay.store import Store

SOON = 60.0
"""Seconds within which what has to come must have come."""


def test_a_message_reaches_every_subscription_of_its_topic_and_no_other(store: Store) -> None:
    with store.bus.subscribe(["a"]) as one, store.bus.subscribe(["b", "a"]) as two, store.bus.subscribe(["b"]) as other:
        store.bus.publish("a", b"1")
        assert one.get(SOON) == ("a", b"1")
        assert two.get(SOON) == ("a", b"1")
        assert other.get(0) is None


def test_a_star_matches_by_prefix_and_a_message_comes_once(store: Store) -> None:
    with (
        store.bus.subscribe(["session/1/*", "session/1/x", "session/1/x"]) as some,
        store.bus.subscribe(["*"]) as every,
    ):
        for topic in ("session/1/x", "session/10", "session/1/"):
            store.bus.publish(topic)
        assert [some.get(SOON), some.get(SOON), some.get(0)] == [("session/1/x", b""), ("session/1/", b""), None]
        assert [every.get(SOON), every.get(SOON), every.get(SOON)] == [
            ("session/1/x", b""),
            ("session/10", b""),
            ("session/1/", b""),
        ]


def test_a_full_queue_drops_the_oldest_and_counts_it(store: Store) -> None:
    with store.bus.subscribe(["a"], size=2) as reader, store.bus.subscribe(["a"]) as roomy:
        for n in range(5):
            store.bus.publish("a", b"%d" % n)
        assert reader.dropped == 3
        assert [reader.get(SOON), reader.get(SOON), reader.get(0)] == [("a", b"3"), ("a", b"4"), None]
        assert roomy.dropped == 0


def test_a_queue_needs_room_and_topics_are_a_sequence(store: Store) -> None:
    with pytest.raises(ValueError, match="at least one message"):
        store.bus.subscribe(["a"], size=0)
    with pytest.raises(ValueError, match="sequence of topics"):
        store.bus.subscribe("a")


def test_a_waiting_reader_is_woken_by_a_message(store: Store) -> None:
    with store.bus.subscribe(["a"]) as reader, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(reader.get, SOON)
        store.bus.publish("a", b"now")
        assert waiting.result(SOON) == ("a", b"now")


def test_closing_wakes_the_reader_and_stops_delivery(store: Store) -> None:
    reader = store.bus.subscribe(["a", "b*"])
    store.bus.publish("a", b"unread")
    reader.close()
    reader.close()
    store.bus.publish("a", b"late")
    assert reader.get(SOON) is None
    with ThreadPoolExecutor(1) as pool:
        other = store.bus.subscribe(["a"])
        waiting = pool.submit(other.get, SOON)
        other.close()
        assert waiting.result(SOON) is None


def test_closing_the_store_closes_every_subscription(store: Store) -> None:
    readers = [store.bus.subscribe(["a"]), store.bus.subscribe(["b*"])]
    store.close()
    assert [(reader.get(SOON), reader.closed) for reader in readers] == [(None, True), (None, True)]


def test_many_threads_publish_and_each_reader_gets_all_in_each_senders_order(store: Store) -> None:
    begin = threading.Barrier(4)

    def send(sender: int) -> None:
        begin.wait()
        for n in range(50):
            store.bus.publish(f"t/{sender}", b"%d" % n)

    with store.bus.subscribe(["t/*"], size=1000) as reader:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(send, range(4)))
        got = [message for message in (reader.get(0) for _ in range(200)) if message is not None]
    assert len(got) == 200
    for sender in range(4):
        assert [int(data) for topic, data in got if topic == f"t/{sender}"] == list(range(50))


def test_a_message_for_this_process_reaches_its_readers(store: Store) -> None:
    with store.bus.subscribe(["a"]) as reader:
        store.bus.publish_here("a", b"1")
        assert reader.get(SOON) == ("a", b"1")
