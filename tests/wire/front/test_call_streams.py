"""Answers to calls leave their thread at a Wait, and go on with another thread after it.

Requirement: issue 38 item 4.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pytest

from patchbay.events import Mailbox, Pause, Wait
from patchbay.jsonrpc import Result
from patchbay.settings import Settings
from patchbay.stores.bus import LocalBus, LocalSubscription
from patchbay.wire.front.answers import Flow, StartedAnswer
from patchbay.wire.front.call_streams import CallStreams
from patchbay.wire.front.event_loop import EventLoop
from patchbay.wire.front.front import Front
from patchbay.wire.front.request_threads import RequestThreads
from patchbay.wire.front.waiting_streams import WaitingStreams
from patchbay.wire.replies.reply import CallBody, ClosingBody, LateBody, Reply, json_reply
from patchbay.wire.replies.sse import Body
from patchbay.wire.requests.at_work import AtWork
from tests.waiting import until
from tests.wire.front.test_waiting_streams import Connection

BOUND = 60.0


class NotedPlace:
    """Notes when its request leaves its place and takes it again."""

    def __init__(self, noted: list[str]) -> None:
        self._noted = noted

    def rest(self) -> None:
        self._noted.append("rest")

    def go_on(self) -> None:
        self._noted.append("go on")


class GivenSteps(CallBody):
    """A body with these steps; notes the thread of each."""

    def __init__(self, steps: list[bytes | Wait], place: NotedPlace | None = None) -> None:
        self._steps = steps
        self.place = place
        self.threads: list[str] = []

    def next_step(self) -> bytes | Wait | None:
        self.threads.append(threading.current_thread().name)
        return self._steps.pop(0) if self._steps else None

    def close(self) -> None: ...


@pytest.fixture
def streams() -> CallStreams:
    return CallStreams(WaitingStreams(EventLoop()), RequestThreads(4))


def send(streams: CallStreams, body: CallBody, at_end: Callable[[], None]) -> Connection:
    connection = Connection()
    streams.send(connection, "", StartedAnswer(), body, at_end)  # type: ignore[arg-type]
    return connection


def test_a_stream_leaves_its_thread_and_its_place_while_it_waits(streams: CallStreams) -> None:
    bus, noted, ended = LocalBus(), list[str](), threading.Event()
    with bus.subscribe(["topic"]) as mailbox:
        body = GivenSteps([b"one", Wait(mailbox, 3600.0), b"two"], NotedPlace(noted))
        connection = send(streams, body, ended.set)
        assert connection.sent == [b"one"] and noted == ["rest"] and not ended.is_set()
        bus.publish("topic")
        assert ended.wait(BOUND)
    assert connection.sent == [b"one", b"two"] and noted == ["rest", "go on"]
    here = threading.current_thread().name
    assert body.threads == [here, here, "request", "request"]


def test_a_stream_goes_on_when_the_time_of_its_wait_is_over(streams: CallStreams) -> None:
    ended = threading.Event()
    with LocalBus().subscribe(["topic"]) as mailbox:
        connection = send(streams, GivenSteps([Wait(mailbox, 0.01), b"one"]), ended.set)
        assert ended.wait(BOUND)
    assert connection.sent == [b"one"]


def test_a_stream_whose_mailbox_is_closed_goes_on(streams: CallStreams) -> None:
    ended = threading.Event()
    mailbox = LocalBus().subscribe(["topic"])
    mailbox.close()
    connection = send(streams, GivenSteps([Wait(mailbox, 3600.0), b"one"]), ended.set)
    assert ended.wait(BOUND)
    assert connection.sent == [b"one"]


def test_a_stream_whose_reader_is_gone_ends_after_its_wait(streams: CallStreams) -> None:
    bus, ended = LocalBus(), threading.Event()
    with bus.subscribe(["topic"]) as mailbox:
        body = GivenSteps([b"one", Wait(mailbox, 3600.0), b"two", b"three"])
        connection = send(streams, body, ended.set)
        connection.gone = True
        bus.publish("topic")
        assert ended.wait(BOUND)
    assert connection.sent == [b"one"] and body.next_step() == b"three"


class NotedSubscription(LocalSubscription):
    """Notes that a reader rests."""

    def __init__(self) -> None:
        super().__init__(("topic",), 1, lambda _: None)
        self.has_reader = threading.Event()

    def call_when_ready(self, callback: Callable[[], None]) -> bool:
        is_waiting = super().call_when_ready(callback)
        self.has_reader.set()
        return is_waiting


def test_a_call_that_goes_on_without_its_reader_holds_no_thread_while_it_waits(streams: CallStreams) -> None:
    """Otherwise each client that leaves takes a thread, and a place among the running calls, from the others."""
    first, second, noted, ended = NotedSubscription(), NotedSubscription(), list[str](), threading.Event()

    def steps() -> Generator[bytes | Wait, None, None]:
        yield Wait(first, 3600.0)
        yield b"to the reader"
        yield Wait(second, 3600.0)
        noted.append("went on")
        ended.set()

    body = Body(steps(), iter(()), goes_on=True)
    connection = send(streams, body, body.close)
    connection.gone = True
    assert first.has_reader.wait(BOUND)
    first.offer("topic", b"")
    assert second.has_reader.wait(BOUND) and not noted
    second.offer("topic", b"")
    assert ended.wait(BOUND)


def test_a_wsgi_server_gets_the_frames_alone() -> None:
    with LocalBus().subscribe(["topic"]) as mailbox:
        assert list(GivenSteps([b"one", Wait(mailbox, 3600.0), b"two"])) == [b"one", b"two"]


def test_a_reply_that_comes_later_has_the_headers_of_both() -> None:
    def steps() -> Generator[Wait, None, Reply]:
        with LocalBus().subscribe(["topic"]) as mailbox:
            yield Wait(mailbox, 3600.0)
        return json_reply(Result(1, {}), 400)

    start = StartedAnswer()
    reply = Reply(headers=[("Mcp-Session-Id", "a")], later=steps())
    assert b'"result":{}' in b"".join(reply.send(start))
    assert start.status == 400
    assert {("Mcp-Session-Id", "a"), ("Content-Type", "application/json")} <= set(start.headers)


def test_a_request_that_waits_without_a_thread_is_still_at_work() -> None:
    """A connection that waits for an answer is not idle (`slow_clients.py`)."""
    at_work = AtWork(lambda *_: (), 60.0)
    request = at_work.leave_thread(at_work.begin())
    thread = at_work.begin()
    at_work.end(thread)
    assert at_work.oldest() > 0
    at_work.end(request)
    assert at_work.oldest() == 0


def test_a_pause_without_a_mailbox_has_no_wait() -> None:
    assert Pause().wait is None
    with LocalBus().subscribe(["topic"]) as mailbox:
        wait = Pause(mailbox, 0.0).wait
        assert wait == Wait(mailbox, 0.0), "its time is over"


def later(mailbox: Mailbox, noted: list[str]) -> Generator[Wait | None, None, Reply]:
    """Steps to an answer, which note their end."""
    try:
        yield None
        yield Wait(mailbox, 3600.0)
        noted.append("answered")
        return json_reply(Result(1, {"a": 1}), 400)
    finally:
        noted.append("ended")


def test_the_head_of_an_answer_that_is_chosen_later_waits_without_a_thread_and_comes_with_it(
    streams: CallStreams,
) -> None:
    """Issue 50, item 18: a request that takes the WSGI application holds no thread while its answer is held back."""
    bus, noted, rested, ended = LocalBus(), list[str](), list[str](), threading.Event()
    with bus.subscribe(["topic"]) as mailbox:
        connection, start = Connection(), StartedAnswer()
        body = Reply(later=later(mailbox, noted)).send(start)
        assert isinstance(body, LateBody)
        body.place, body.at_choice = NotedPlace(rested), lambda: rested.append("chosen")
        streams.send(connection, "", start, body, ended.set)  # type: ignore[arg-type]
        assert rested == ["rest"] and not body.is_chosen and not connection.heads
        bus.publish("topic")
        assert ended.wait(BOUND)
    assert connection.heads == [400] and b'"a":1' in b"".join(connection.sent)
    assert noted == ["answered", "ended"] and rested == ["rest", "go on", "chosen"]


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket, str]]:
    """A connection: the end of a client, the end of the hub, and the name of the client."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
        client.connect(listening.getsockname())
        accepted, (host, port) = listening.accept()
        with accepted:
            yield client, accepted, f"{host}:{port}"


@pytest.mark.parametrize("leaves", [True, False])
def test_a_client_that_leaves_before_its_answer_begins_ends_the_call_where_leaving_cancels(
    streams: CallStreams, leaves: bool
) -> None:
    """2026-07-28: a closed connection is the cancellation; no frame is sent meanwhile that would notice it."""
    bus, noted, ended = LocalBus(), list[str](), threading.Event()
    with connected() as (_, accepted, name), bus.subscribe(["topic"]) as mailbox:
        start = StartedAnswer()
        body = Reply(later=later(mailbox, noted), ends_with_reader=leaves).send(start)
        assert isinstance(body, LateBody)
        closed = ClosingBody(body, ended.set)
        streams.send(Connection(), name, start, body, closed.close)  # type: ignore[arg-type]
        assert not noted
        accepted.close()  # as the web server does when the client has left
        bus.publish("topic")
        assert ended.wait(BOUND)
    assert noted == (["ended"] if leaves else ["answered", "ended"])


@pytest.mark.parametrize("leaves", [True, False])
def test_the_same_holds_for_an_answer_without_a_wsgi_environ(leaves: bool) -> None:
    bus, noted = LocalBus(), list[str]()
    front = Front(lambda *_: (), Settings(), RequestThreads(4))
    with connected() as (_, accepted, name), bus.subscribe(["topic"]) as mailbox:
        reader = Flow(name) if leaves else None
        front._settle(None, Connection(), later(mailbox, noted), reader)  # type: ignore[arg-type]
        assert not noted
        accepted.close()
        bus.publish("topic")
        until(lambda: "ended" in noted, "the end of the steps")
    assert noted == (["ended"] if leaves else ["answered", "ended"])
