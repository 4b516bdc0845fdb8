"""Streams that wait, on an event loop of their own: woken by messages and by time, paused for readers, ended once.

Requirements: SCALE 1, issue 14 item 1; DESIGN 6 (every queue has a bound).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from patchbay.events import Wait
from patchbay.stores.bus import LocalBus
from patchbay.wire.front.answers import StartedAnswer
from patchbay.wire.front.event_loop import EventLoop
from patchbay.wire.front.waiting_streams import WaitingStreams

BOUND = 60.0
LONG = 3600.0


class Left:
    """What the web server says when a connection is gone."""

    def __init__(self) -> None:
        self.callbacks: list[Any] = []

    def add_done_callback(self, callback: Any, context: Any) -> None:
        self.callbacks.append(callback)

    def cancel(self) -> bool:
        return True


class Connection:
    """The web server's end of one answer: keeps what is sent. After `gone` it takes nothing."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.heads: list[int] = []
        self.gone = False
        self.left = Left()
        self._more = threading.Condition()

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Connection:
        self.heads.append(status)
        return self

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.heads.append(status)
        self.sent.append(body)

    def response_empty(self, status: int, headers: list[tuple[str, str]]) -> None:
        self.heads.append(status)

    def client_disconnect(self) -> Left:
        return self.left

    def cut(self) -> None: ...

    def send_bytes(self, data: bytes) -> Iterator[None]:
        if self.gone:
            raise ConnectionError("gone")
        with self._more:
            self.sent.append(data)
            self._more.notify_all()
        return iter([None])

    def until(self, frames: list[bytes]) -> None:
        with self._more:
            assert self._more.wait_for(lambda: self.sent == frames, BOUND), self.sent


class Ending:
    """Closes the steps of a stream, and says that it did."""

    def __init__(self, steps: Iterator[bytes | Wait]) -> None:
        self.times = 0
        self._steps = steps
        self._over = threading.Event()

    def __call__(self) -> None:
        self.times += 1
        self._steps.close()  # type: ignore[attr-defined]
        self._over.set()

    def wait(self) -> None:
        assert self._over.wait(BOUND)


@pytest.fixture(scope="module")
def streams() -> WaitingStreams:
    return WaitingStreams(EventLoop())


def echoing(bus: LocalBus, seconds: float = LONG) -> Iterator[bytes | Wait]:
    """Gives back the messages on the topic `said`; `end` ends it, and silence gives a dot."""
    with bus.subscribe(["said"]) as mailbox:
        yield b"begun"
        while True:
            yield Wait(mailbox, seconds)
            got = mailbox.get(0)
            if got is not None and got[1] == b"end":
                return
            yield b"." if got is None else got[1]


def begun(streams: WaitingStreams, steps: Iterator[bytes | Wait]) -> tuple[Connection, Ending]:
    connection, ending = Connection(), Ending(steps)
    streams.send(connection, "127.0.0.1:1", StartedAnswer(), steps, ending)  # type: ignore[arg-type]
    return connection, ending


def test_messages_wake_a_stream_and_its_end_closes_it_once(streams: WaitingStreams) -> None:
    bus = LocalBus()
    connection, ending = begun(streams, echoing(bus))
    for message in (b"one", b"two", b"end"):
        bus.publish("said", message)
    ending.wait()
    assert connection.sent == [b"begun", b"one", b"two"]
    assert ending.times == 1


def test_a_stream_listens_before_the_head_of_its_answer_is_sent(streams: WaitingStreams) -> None:
    bus = LocalBus()

    class Telling(Connection):
        def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Connection:
            bus.publish("said", b"at once")
            return self

    connection, steps = Telling(), echoing(bus)
    streams.send(connection, "127.0.0.1:1", StartedAnswer(), steps, Ending(steps))  # type: ignore[arg-type]
    connection.until([b"begun", b"at once"])


def test_silence_wakes_a_stream_again_and_again(streams: WaitingStreams) -> None:
    connection, _ = begun(streams, echoing(LocalBus(), 0.01))
    with connection._more:
        assert connection._more.wait_for(lambda: len(connection.sent) > 5, BOUND)
    assert set(connection.sent) == {b"begun", b"."}


def test_streams_that_are_woken_by_time_and_by_messages_together_go_on(streams: WaitingStreams) -> None:
    """A message that comes at the very end of the wait neither stops the loop nor gets lost."""
    bus = LocalBus()
    pairs = [begun(streams, echoing(bus, 0.001)) for _ in range(50)]
    for number in range(300):
        bus.publish("said", b"%d" % number)
    bus.publish("said", b"end")
    for connection, ending in pairs:
        ending.wait()
        told = [frame for frame in connection.sent if frame not in (b"begun", b".")]
        assert told[-1] == b"299"
        assert told == sorted(told, key=int)


def test_a_reader_that_left_ends_its_stream_at_once(streams: WaitingStreams) -> None:
    connection, ending = begun(streams, echoing(LocalBus()))
    connection.left.callbacks[0](connection.left)
    ending.wait()


def test_a_reader_that_takes_nothing_any_more_ends_its_stream(streams: WaitingStreams) -> None:
    bus = LocalBus()
    connection, ending = begun(streams, echoing(bus))
    connection.until([b"begun"])
    connection.gone = True
    bus.publish("said", b"anybody?")
    ending.wait()


def test_a_mailbox_that_is_closed_ends_its_stream(streams: WaitingStreams) -> None:
    bus = LocalBus()
    _, ending = begun(streams, echoing(bus))
    bus.close()
    ending.wait()


def test_a_stream_that_fails_is_ended_and_the_log_says_so(
    streams: WaitingStreams, caplog: pytest.LogCaptureFixture
) -> None:
    bus = LocalBus()

    def failing() -> Iterator[bytes | Wait]:
        with bus.subscribe(["said"]) as mailbox:
            yield b"begun"
            yield Wait(mailbox, LONG)
            raise ValueError("broken")

    connection, ending = begun(streams, failing())
    connection.until([b"begun"])
    bus.publish("said")
    ending.wait()
    assert "a stream is closed: it failed" in caplog.text


def test_a_stream_that_fails_before_its_answer_is_closed(streams: WaitingStreams) -> None:
    def failing(said: str) -> Iterator[bytes | Wait]:
        if said:
            raise ValueError(said)
        yield b""

    steps = failing("broken")
    ending = Ending(steps)
    with pytest.raises(ValueError, match="broken"):
        streams.send(Connection(), "127.0.0.1:1", StartedAnswer(), steps, ending)  # type: ignore[arg-type]
    assert ending.times == 1


def test_no_stream_is_counted_once_all_are_over() -> None:
    streams, bus = WaitingStreams(EventLoop()), LocalBus()
    pairs = [begun(streams, echoing(bus)) for _ in range(10)]
    assert streams.count == 10
    bus.publish("said", b"end")
    for _, ending in pairs:
        ending.wait()
    over = threading.Event()
    streams._loop.call(over.set)
    assert over.wait(BOUND)
    assert streams.count == 0
