"""Streams that mostly wait, all on the event loop of the worker: listeners, replays and the streams of 2024-11-05.

A stream is a generator of frames that gives a `Wait` where it has nothing to send. It runs until the next Wait, on the
loop's thread, whenever its mailbox has a message or its time is over. Streams that are woken together share the loop.
Sources: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports; RFC 9112, 7.1.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from patchbay.events import Wait
from patchbay.wire.front.answers import LONGEST_WAIT_SECONDS, Flow, StartedAnswer, is_sent
from patchbay.wire.front.event_loop import EventLoop
from patchbay.wire.requests.rsgi import Future, HttpProtocol, Stream

log = logging.getLogger(__name__)

TURN_SECONDS = 0.001
"""Seconds that woken streams run before other threads and the rest of the loop run."""

Steps = Iterator[bytes | Wait]


class WaitingStreams:
    """The streams of one worker. Safe to use from many threads."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._ready: deque[WaitingStream] = deque()
        self._lock = threading.Lock()
        self._signalled = False
        self._count = 0
        # Used on the loop only: the time of the next check of each stream.
        self._due: list[tuple[float, int, WaitingStream]] = []
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """The number of streams."""
        return self._count

    def __call__(self, steps: Iterator[Wait]) -> None:
        """Run steps to their end, without a client."""
        self.start(self.prepare(steps))

    def prepare(self, steps: Iterator[Wait]) -> WaitingStream:
        """Return a stream without a client, for `start`."""
        return WaitingStream(self, steps, at_end=getattr(steps, "close", None))

    def send(
        self, protocol: HttpProtocol, client: str, start: StartedAnswer, steps: Steps, at_end: Callable[[], None]
    ) -> None:
        """Answer a request of `client` (`address:port`) with steps; call `at_end` when they end or it disconnects."""
        # The stream listens before the client reads the head of its answer.
        try:
            first = next(steps, b"")
        except BaseException:
            at_end()
            raise
        # The answer ends with the last reference to it, and a kept exception may keep this frame: no local variable.
        stream = WaitingStream(
            self, steps, protocol.response_stream(start.status, start.headers), at_end, client, first
        )
        stream.watch(protocol.client_disconnect())
        self.start(stream)

    def start(self, stream: WaitingStream) -> None:
        """Start a stream on the loop."""
        with self._lock:
            self._count += 1
        self.wake(stream)

    def wake(self, stream: WaitingStream) -> None:
        """Let a stream run soon."""
        with self._lock:
            self._ready.append(stream)
            signalled, self._signalled = self._signalled, True
        if not signalled:
            self._loop.call(self._run)

    def end_soon(self, stream: WaitingStream) -> None:
        """End a stream whose reader is gone."""
        self._loop.call(stream.end)

    def hurry(self, stream: WaitingStream) -> None:
        """End the waits of a stream without a client soon."""
        self._loop.call(stream.hurry)

    def end_stream(self) -> None:
        """Note that a stream has ended."""
        with self._lock:
            self._count -= 1

    def _run(self) -> None:
        """On the loop: run the woken streams for a time."""
        until = time.monotonic() + TURN_SECONDS
        while True:
            with self._lock:
                if not self._ready:
                    self._signalled = False
                    return
                stream = self._ready.popleft()
            stream.run()
            if time.monotonic() >= until:
                self._loop.call(self._run)
                return

    def expect(self, stream: WaitingStream) -> None:
        """On the loop: check a stream when its time is over. Only its newest entry in the list counts."""
        self._number += 1
        heapq.heappush(self._due, (stream.due, self._number, stream))
        stream.expected = stream.due
        if self._due[0][2] is stream:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, self._due[0][0] - time.monotonic()), self._wake_due)

    def _wake_due(self) -> None:
        """On the loop: wake the streams whose time is over."""
        self._timer = None
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            at, _, stream = heapq.heappop(self._due)
            if stream.expected != at:
                continue
            stream.expected = None
            if stream.is_late(now):
                self.wake(stream)
            elif stream.waits and stream.due > now:
                self.expect(stream)
            # Otherwise a message has just woken it: it runs soon, and then sets its next time.
        if self._due and self._timer is None:
            self._set_timer()


class WaitingStream:
    """One stream: generator, transport, and the end of its wait. Methods run on the loop unless they say otherwise."""

    __slots__ = (
        *("_at_end", "_first", "_flow", "_is_hurried", "_left", "_paused", "_sent", "_steps", "_streams", "_wait"),
        *("due", "expected"),
    )

    def __init__(
        self,
        streams: WaitingStreams,
        steps: Iterable[bytes | Wait],
        sent: Stream | None = None,
        at_end: Callable[[], None] | None = None,
        client: str = "",
        first: bytes | Wait = b"",
    ) -> None:
        self._streams = streams
        self._first = first  # was already taken from the steps
        self._steps: Steps | None = iter(steps)
        self._sent = sent
        self._at_end = at_end
        self._flow = Flow(client)
        self._left: Future | None = None
        self._wait: Wait | None = None
        self._paused = False
        self._is_hurried = False
        self.due = 0.0
        self.expected: float | None = None

    def watch(self, left: Future) -> None:
        """End the stream when the web server reports by `left` that the connection is gone. Called before the start."""
        self._left = left
        left.add_done_callback(self._leave_soon, None)

    def _leave_soon(self, _: Future) -> None:
        """Called by the web server, on one of its threads."""
        if self._steps is not None:
            self._streams.end_soon(self)

    def wake(self) -> None:
        """Called by the mailbox, on any thread, when there is a message."""
        self._streams.wake(self)

    @property
    def waits(self) -> bool:
        """Whether it waits for a message, for the end of its time, or for its reader."""
        return self._paused or self._wait is not None

    def is_late(self, now: float) -> bool:
        """Whether its time is over and no message has woken it; after True no message wakes it."""
        if self.due > now:
            return False
        return self._paused or (self._wait is not None and self._wait.mailbox.cancel_call())

    def hurry(self) -> None:
        """End the present wait, and those to come."""
        self._is_hurried = True
        if self._wait is not None and self._wait.mailbox.cancel_call():
            self._streams.wake(self)

    def run(self) -> None:
        """Run until the next Wait, or until the reader leaves too much unread."""
        self._wait = None
        if self._steps is None or self._is_behind():
            return
        first, self._first = self._first, b""
        try:
            for step in chain((first,), self._steps) if first else self._steps:
                if isinstance(step, Wait):
                    if step.mailbox.closed:
                        break
                    if not self._is_hurried and step.mailbox.call_when_ready(self.wake):
                        self._wait = step
                        self._expect(step.seconds)
                        return
                elif self._sent is not None and step:
                    if not is_sent(self._sent, step):
                        break
                    self._paused = self._flow.add(len(step))
                    if self._is_behind():
                        return
        except Exception:
            log.exception("a stream is closed: it failed")
        self.end()

    def _is_behind(self) -> bool:
        """Whether to go on later, because of the reader; `slow_clients.py` disconnects one that reads nothing."""
        if self._paused:
            self._paused = bool(self._flow.is_behind())
            if self._paused:
                self._expect(LONGEST_WAIT_SECONDS)
        return self._paused

    def _expect(self, seconds: float) -> None:
        self.due = time.monotonic() + seconds
        if self.expected is None or self.due < self.expected:
            self._streams.expect(self)

    def end(self) -> None:
        """End the stream at any point; a second call does nothing."""
        steps, self._steps, self._wait, self._paused = self._steps, None, None, False
        if steps is None:
            return
        try:
            if self._at_end is not None:
                self._at_end()
        except Exception:
            log.exception("the end of a stream failed")
        self._streams.end_stream()
        # Last, because the web server may end the process once every answer is complete.
        self._sent = self._at_end = None
        if self._left is not None:
            self._left.cancel()
            self._left = None
