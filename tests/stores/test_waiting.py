"""Waiting for a mailbox without a thread, and for a generator that waits with one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.events import Wait, wait_blocking
from patchbay.stores.bus import LocalBus


def test_a_callback_is_called_once_for_the_next_message() -> None:
    bus, called = LocalBus(), list[str]()
    with bus.subscribe(["news"]) as mailbox:
        assert mailbox.call_when_ready(lambda: called.append("ready"))
        assert called == []
        bus.publish("news", b"1")
        bus.publish("news", b"2")
        assert called == ["ready"]
        assert not mailbox.call_when_ready(lambda: called.append("again")), "a message waits already"
        assert [mailbox.get(0), mailbox.get(0), mailbox.get(0)] == [("news", b"1"), ("news", b"2"), None]
    assert called == ["ready"]


def test_a_callback_is_called_when_the_mailbox_is_closed() -> None:
    bus, called = LocalBus(), list[str]()
    mailbox = bus.subscribe(["news"])
    assert mailbox.call_when_ready(lambda: called.append("ready"))
    bus.close()
    assert called == ["ready"]
    assert not mailbox.call_when_ready(lambda: called.append("again"))


def test_a_callback_that_is_cancelled_is_not_called() -> None:
    bus, called = LocalBus(), list[str]()
    with bus.subscribe(["news"]) as mailbox:
        mailbox.call_when_ready(lambda: called.append("ready"))
        assert mailbox.cancel_call()
        assert not mailbox.cancel_call()
        bus.publish("news")
    assert called == []


def test_a_generator_that_waits_is_read_as_one_that_blocks() -> None:
    bus, closed = LocalBus(), list[bool]()

    def steps() -> Iterator[bytes | Wait]:
        try:
            with bus.subscribe(["news"]) as mailbox:
                bus.publish("news", b"first")
                while True:
                    yield Wait(mailbox, 0.001)
                    got = mailbox.get(0)
                    yield b"silence" if got is None else got[1]
        finally:
            closed.append(True)

    items = wait_blocking(steps())
    assert [next(items), next(items)] == [b"first", b"silence"]
    assert closed == []
    items.close()  # type: ignore[attr-defined]
    assert closed == [True]
    with pytest.raises(StopIteration):
        next(items)
