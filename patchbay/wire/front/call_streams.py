"""Answers to calls that last: each holds a thread while its tool runs, and none while it waits for an upstream.

An answer runs on the thread of its request until it gives a Wait. Then it rests on the event loop, and goes on with
another thread when its mailbox has a message, or when its time is over.
Source: MCP specification, basic/transports (Streamable HTTP).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from patchbay.events import Wait
from patchbay.wire.front.answers import Flow, StartedAnswer, is_sent
from patchbay.wire.front.request_threads import RequestThreads
from patchbay.wire.front.requests import HttpProtocol, Stream
from patchbay.wire.front.waiting_streams import WaitingStreams
from patchbay.wire.responses import CallBody

log = logging.getLogger(__name__)


class CallStreams:
    """Sends the answers of one worker that wait. `waiting` wakes them; `threads` runs them after that."""

    def __init__(self, waiting: WaitingStreams, threads: RequestThreads) -> None:
        self._waiting = waiting
        self._threads = threads

    def rest(self, wait: Wait, go_on: Callable[[], None]) -> None:
        """Call `go_on` on some thread after a wait. It may be called before this returns."""
        self._waiting(self._after(wait, go_on))

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
        try:
            sent = protocol.response_stream(start.status, start.headers)
        except BaseException:
            at_end()
            raise
        body.rest = self.rest
        stream = CallStream(self, body, sent, client, at_end)
        # The answer ends with the last reference to it: no local variable.
        del sent
        stream.run()


class CallStream:
    """One streamed answer. One thread at a time runs it."""

    __slots__ = ("_at_end", "_body", "_flow", "_sent", "_streams")

    def __init__(
        self, streams: CallStreams, body: CallBody, sent: Stream, client: str, at_end: Callable[[], None]
    ) -> None:
        self._streams = streams
        self._body = body
        self._sent: Stream | None = sent
        self._flow = Flow(client)
        self._at_end = at_end

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
        if not frame:
            return True
        assert self._sent is not None
        if not is_sent(self._sent, frame):
            return False
        if self._flow.add(len(frame)):
            self._flow.wait()
        return True

    def _rest(self, wait: Wait) -> None:
        """Leave the thread until the end of a wait. After this, another thread may run the stream."""
        if self._body.place is not None:
            self._body.place.rest()
        self._streams.rest(wait, self._go_on)

    def _go_on(self) -> None:
        if self._body.place is not None:
            self._body.place.go_on()
        self.run()

    def _end(self) -> None:
        try:
            self._at_end()
        except Exception:
            log.exception("the end of a stream failed")
        # Last, because the web server may end the process once every answer is complete.
        self._sent = None
