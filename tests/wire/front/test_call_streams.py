"""Answers to calls leave their thread at a Wait, and go on with another thread after it.

Requirement: issue 38 item 4.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from patchbay.activation import DISCONNECTED, CancelFlag
from patchbay.events import Mailbox, Pause, Wait
from patchbay.jsonrpc import Result
from patchbay.settings import Settings
from patchbay.stores.bus import LocalBus, LocalSubscription
from patchbay.views.sse import COMMENT
from patchbay.wire.front.answers import StartedAnswer
from patchbay.wire.front.call_streams import CallStreams, Reader
from patchbay.wire.front.event_loop import EventLoop
from patchbay.wire.front.front import Front
from patchbay.wire.front.request_threads import RequestThreads
from patchbay.wire.front.waiting_streams import WaitingStreams
from patchbay.wire.replies.reply import CallBody, Reply, json_reply
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
    return CallStreams(WaitingStreams(EventLoop()), RequestThreads(4, EventLoop()))


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

    body = Body(steps(), iter(()), leave=None)
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
    assert b'"result":{}' in b"".join(reply.settle_on_thread().send(start))
    assert start.status == 400
    assert {("Mcp-Session-Id", "a"), ("Content-Type", "application/json")} <= set(start.headers)


def test_a_request_that_waits_without_a_thread_is_still_at_work() -> None:
    """A connection that waits for an answer is not idle (`slow_clients.py`)."""
    at_work = AtWork(60.0)
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


def test_an_answer_that_is_known_later_waits_without_a_thread() -> None:
    """Issue 50, item 18."""
    bus, noted, connection = LocalBus(), list[str](), Connection()
    front = Front(lambda _: Reply(), Settings(), RequestThreads(4, EventLoop()))
    with bus.subscribe(["topic"]) as mailbox:
        front._settle(SimpleNamespace(client=""), connection, later(mailbox, noted), None)  # type: ignore[arg-type]
        assert not noted and not connection.sent, "this thread is free, and the head waits"
        bus.publish("topic")
        until(lambda: noted == ["answered", "ended"], "the answer")
    until(lambda: connection.sent, "the answer is sent")


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket, str]]:
    """A connection: the end of a client, the end of the hub, and the name of the client."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
        client.connect(listening.getsockname())
        accepted, (host, port) = listening.accept()
        with accepted:
            yield client, accepted, f"{host}:{port}"


@pytest.mark.parametrize("leaves", [True, False])
def test_a_client_that_leaves_before_its_answer_begins_ends_the_call_where_leaving_cancels(leaves: bool) -> None:
    """2026-07-28: a closed connection is the cancellation; no frame is sent meanwhile that would notice it."""
    bus, noted = LocalBus(), list[str]()
    front = Front(lambda _: Reply(), Settings(), RequestThreads(4, EventLoop()))
    with connected() as (_, accepted, name), bus.subscribe(["topic"]) as mailbox:
        connection = Connection()
        reader = Reader(connection, name, CancelFlag().leave) if leaves else None  # type: ignore[arg-type]
        front._settle(None, connection, later(mailbox, noted), reader)  # type: ignore[arg-type]
        assert not noted
        accepted.close()
        bus.publish("topic")
        until(lambda: "ended" in noted, "the end of the steps")
    assert noted == (["ended"] if leaves else ["answered", "ended"])


def waiting_call(mailbox: Mailbox, noted: list[str]) -> Generator[bytes | Wait, None, None]:
    """The frames of a call that waits for its upstream for an hour, and notes its end."""
    try:
        yield b"one"
        yield Wait(mailbox, 3600.0)
        noted.append("went on")
        yield b"two"
    finally:
        noted.append("ended")


@pytest.mark.parametrize("leaves", [True, False])
def test_a_call_that_waits_without_a_thread_ends_at_once_when_its_client_leaves(
    streams: CallStreams, leaves: bool
) -> None:
    """Issue 50, item 21: the end of the connection was seen at the next frame only, up to two seconds later."""
    noted, flag = list[str](), CancelFlag()
    with LocalBus().subscribe(["topic"]) as mailbox:
        frames = waiting_call(mailbox, noted)
        body = Body(frames, iter(()), flag.leave if leaves else None)
        connection = send(streams, body, frames.close)
        assert len(connection.left.callbacks) == leaves, "a call that goes on without its client is not watched"
        for callback in connection.left.callbacks:
            callback(connection.left)
            until(lambda: "ended" in noted, "the end of the call")
            assert noted == ["ended"] and flag.reason == DISCONNECTED and connection.sent == [b"one"]


def test_a_call_with_a_thread_is_cancelled_when_its_client_leaves(streams: CallStreams) -> None:
    noted, flag, connection = list[str](), CancelFlag(), Connection()

    def frames() -> Generator[bytes, None, None]:
        yield b"one"
        yield COMMENT
        if flag.wait(BOUND):
            noted.append("cancelled")
        yield COMMENT
        noted.append("went on")

    body = Body(frames(), iter(()), flag.leave)
    ended = threading.Event()
    running = threading.Thread(
        target=streams.send,
        args=(connection, "", StartedAnswer(), body, ended.set),
    )
    running.start()
    connection.until([b"one", COMMENT])
    connection.left.callbacks[0](connection.left)
    assert ended.wait(BOUND)
    running.join()
    assert noted == ["cancelled"] and connection.sent == [b"one", COMMENT]


def test_a_client_that_leaves_before_the_head_ends_a_call_that_waits() -> None:
    """Nothing is sent then that could fail, so the web server has to say it."""
    noted, flag, connection = list[str](), CancelFlag(), Connection()
    with LocalBus().subscribe(["topic"]) as mailbox:
        front = Front(lambda _: Reply(), Settings(), RequestThreads(4, EventLoop()))
        reply = Reply(later=later(mailbox, noted), leave=flag.leave)
        front._send_reply(SimpleNamespace(client=""), connection, reply)  # type: ignore[arg-type]
        assert not noted
        connection.left.callbacks[0](connection.left)
        until(lambda: noted, "the end of the call")
    assert noted == ["ended"] and flag.reason == DISCONNECTED


def test_a_client_that_leaves_before_its_call_waits_ends_that_wait(streams: CallStreams) -> None:
    noted, flag, connection = list[str](), CancelFlag(), Connection()
    with LocalBus().subscribe(["topic"]) as mailbox:

        def frames() -> Generator[bytes | Wait, None, None]:
            yield COMMENT
            connection.left.callbacks[0](connection.left)
            yield from waiting_call(mailbox, noted)

        steps = frames()
        send_all = Body(steps, iter(()), flag.leave)
        streams.send(connection, "", StartedAnswer(), send_all, steps.close)  # type: ignore[arg-type]
        until(lambda: noted, "the end of the call")
    assert noted == ["ended"]


def test_what_the_web_server_says_after_the_answer_cancels_nothing(streams: CallStreams) -> None:
    flag, ended = CancelFlag(), threading.Event()
    connection = send(streams, Body(iter((COMMENT, b"one")), iter(()), flag.leave), ended.set)
    assert ended.is_set()
    connection.left.callbacks[0](connection.left)
    assert not flag


def test_a_call_that_became_a_task_is_not_cancelled_when_its_caller_leaves() -> None:
    flag = CancelFlag()
    flag.outlives_caller = True
    flag.leave()
    assert not flag
