"""Answers to calls that last: each holds a thread while its tool runs, and none while it waits for an upstream.

An answer runs on the thread of its request until it gives a Wait. Then it rests on the event loop, and goes on with
another thread when its mailbox has a message, or when its time is over.
Source: MCP specification, basic/transports (Streamable HTTP).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial

from patchbay.events import Wait
from patchbay.views.sse import COMMENT
from patchbay.wire.front.answers import Flow, StartedAnswer, is_sent
from patchbay.wire.front.request_threads import RequestThreads
from patchbay.wire.front.waiting_streams import WaitingStreams
from patchbay.wire.replies.reply import CallBody
from patchbay.wire.requests.rsgi import Future, HttpProtocol, Stream

log = logging.getLogger(__name__)


class Reader:
    """The client of one answer that lasts. When it leaves, `leave` cancels the call, and a wait of the call ends.

    `client` is the other end of its connection (`address:port`). The web server says when it leaves, from `watch` on.
    """

    def __init__(self, protocol: HttpProtocol, client: str, leave: Callable[[], None]) -> None:
        self._protocol: HttpProtocol | None = protocol
        self._flow = Flow(client)
        self._leave = leave
        self._left: Future | None = None
        self._is_over = False
        self._end_wait: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self.has_left = False

    def watch(self) -> None:
        """Have the web server say when the client leaves; a second call does nothing."""
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            self._left = protocol.client_disconnect()
            self._left.add_done_callback(self._note_left, None)

    def is_gone(self) -> bool:
        """Whether the client has left before the head of its answer; also where the web server does not say so."""
        return self.has_left or self._flow.is_gone()

    def wait(self, end_wait: Callable[[], None] | None) -> None:
        """Call `end_wait` when the client leaves, or now when it has left; None after the wait."""
        with self._lock:
            self._end_wait = end_wait
            has_left = self.has_left
        if has_left and end_wait is not None:
            end_wait()

    def end(self) -> None:
        """Stop watching, at the end of the answer."""
        with self._lock:
            self._is_over = True
        self._protocol = None
        if self._left is not None:
            self._left.cancel()
            self._left = None

    def _note_left(self, _: Future) -> None:
        """Called by the web server, on one of its threads."""
        with self._lock:
            if self._is_over:
                return
            self.has_left = True
            end_wait = self._end_wait
        self._leave()
        if end_wait is not None:
            end_wait()


class CallStreams:
    """Sends the answers of one worker that wait. `waiting` wakes them; `threads` runs them after that."""

    def __init__(self, waiting: WaitingStreams, threads: RequestThreads) -> None:
        self._waiting = waiting
        self._threads = threads

    def rest(self, wait: Wait, go_on: Callable[[], None], reader: Reader | None = None) -> None:
        """Call `go_on` on some thread after a wait, or when the reader leaves. It may be called before this returns."""
        resting = self._waiting.prepare(self._after(wait, go_on))
        if reader is not None:
            reader.watch()
            reader.wait(partial(self._waiting.hurry, resting))
        self._waiting.start(resting)

    def _after(self, wait: Wait, go_on: Callable[[], None]) -> Iterator[Wait]:
        """On the event loop: wait, then take a thread, also when the wait ends in another way."""
        try:
            yield wait
        finally:
            self._threads.start(go_on)

    def send(
        self, protocol: HttpProtocol, client: str, start: StartedAnswer, body: CallBody, at_end: Callable[[], None]
    ) -> None:
        """Answer a request of `client` (`address:port`) with a body; call `at_end` at its end, from any thread."""
        body.rest = self.rest
        reader = Reader(protocol, client, body.leave) if body.leave is not None else None
        stream = CallStream(self, body, reader, client, at_end)
        try:
            stream.open(protocol, start)
        except BaseException:
            at_end()
            raise
        stream.run()


class CallStream:
    """One answer in frames. One thread at a time runs it.

    The answer ends with the last reference to the stream of the web server, so that no local variable has it.
    """

    __slots__ = ("_at_end", "_body", "_flow", "_reader", "_sent", "_streams")

    def __init__(
        self, streams: CallStreams, body: CallBody, reader: Reader | None, client: str, at_end: Callable[[], None]
    ) -> None:
        self._streams = streams
        self._body = body
        self._sent: Stream | None = None
        self._flow = Flow(client)
        self._reader = reader
        self._at_end = at_end

    def open(self, protocol: HttpProtocol, start: StartedAnswer) -> None:
        """Send the head."""
        self._sent = protocol.response_stream(start.status, start.headers)

    def run(self) -> None:
        """Send frames until the next Wait or the end; holds the thread meanwhile."""
        try:
            while (step := self._body.next_step()) is not None:
                if isinstance(step, Wait):
                    self._rest(step)
                    return
                if not self._is_taken(step):
                    break
        except Exception:
            log.exception("a stream is closed: it failed")
        self._end()

    def _is_taken(self, frame: bytes) -> bool:
        """Send a frame, and wait for a reader that is behind; False when the connection is gone."""
        reader = self._reader
        if reader is not None and frame in (b"", COMMENT):
            reader.watch()
            if reader.has_left:
                return False
        assert self._sent is not None
        if not frame:
            return True
        if not is_sent(self._sent, frame):
            return False
        if self._flow.add(len(frame)):
            self._flow.wait()
        return True

    def _rest(self, wait: Wait) -> None:
        """Leave the thread until the end of a wait. After this, another thread may run the stream."""
        if self._body.place is not None:
            self._body.place.rest()
        self._streams.rest(wait, self._go_on, self._reader)

    def _go_on(self) -> None:
        if self._reader is not None:
            self._reader.wait(None)
        if self._body.place is not None:
            self._body.place.go_on()
        if self._reader is not None and self._reader.has_left:
            self._end()
        else:
            self.run()

    def _end(self) -> None:
        if self._reader is not None:
            self._reader.end()
        try:
            self._at_end()
        except Exception:
            log.exception("the end of a stream failed")
        # Last, because the web server may end the process once every answer is complete.
        self._sent = None
