"""A loop that waits for messages of the bus."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from patchbay.coordination.mailbox_loop import MailboxLoop
from patchbay.errors import ContentError
from patchbay.store import Subscription
from patchbay.stores.memory import MemoryStore
from patchbay.stores.sqlite import SqliteStore
from tests.waiting import BOUND, until


def test_every_message_after_the_start_reaches_a_round() -> None:
    store, got = MemoryStore(), list[str]()

    def run_round(mailbox: Subscription) -> None:
        if (found := mailbox.get(BOUND)) is not None:
            got.append(found[0])

    loop = MailboxLoop("listening", store.bus, ["news/*"], run_round, "no message is read")
    loop.start()
    store.bus.publish("news/1")
    store.bus.publish("news/2")
    until(lambda: len(got) == 2)
    loop.close(BOUND)
    assert got == ["news/1", "news/2"]


def test_a_stop_ends_the_wait_for_a_message() -> None:
    store, waits, ended = MemoryStore(), threading.Event(), threading.Event()

    def run_round(mailbox: Subscription) -> None:
        waits.set()
        mailbox.get(BOUND * 10)
        ended.set()

    loop = MailboxLoop("waiting", store.bus, ["news"], run_round, "no message is read")
    loop.start()
    assert waits.wait(BOUND)
    loop.close(BOUND)
    assert ended.is_set()


def test_the_loop_ends_with_its_store() -> None:
    store = MemoryStore()
    loop = MailboxLoop("waiting", store.bus, ["news"], lambda mailbox: mailbox.wait(BOUND * 10), "no message is read")
    loop.start()
    store.close()
    until(lambda: not loop.is_started)


def test_a_failed_round_does_not_lose_the_next_message(caplog: pytest.LogCaptureFixture) -> None:
    store, got = MemoryStore(), list[str]()

    def run_round(mailbox: Subscription) -> None:
        if (found := mailbox.get(BOUND)) is not None:
            got.append(found[0])
            if len(got) == 1:
                raise ValueError("broken once")

    loop = MailboxLoop("failing", store.bus, ["news/*"], run_round, "the message is not read", retry_seconds=0.0)
    loop.start()
    store.bus.publish("news/1")
    store.bus.publish("news/2")
    until(lambda: len(got) == 2)
    loop.close(BOUND)
    assert "the message is not read" in [one.getMessage() for one in caplog.records]


def test_a_loop_on_a_closed_store_does_not_start(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.close()
    loop = MailboxLoop("late", store.bus, ["news"], lambda mailbox: mailbox.wait(BOUND), "no message is read")
    with pytest.raises(ContentError):
        loop.start()
    assert not loop.is_started


def test_a_stopped_loop_does_not_start() -> None:
    store = MemoryStore()
    loop = MailboxLoop("stopped", store.bus, ["news"], lambda mailbox: mailbox.wait(BOUND), "no message is read")
    loop.stop()
    loop.start()
    assert not loop.is_started
