"""Answers, sent through the interface of the web server (RSGI).

The interface takes any number of bytes and never says how many of them were sent. So this module limits the bytes that
a reader has not read: after every UNCHECKED_BYTES of a streamed answer it asks the kernel how many were acknowledged.
Sources: PEP 3333; https://github.com/emmett-framework/granian/blob/master/docs/spec/RSGI.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from patchbay.wire.front.connection_index import find_connection
from patchbay.wire.front.sockets import Counters, is_socket
from patchbay.wire.requests.rsgi import HttpProtocol, Stream

JOINED_BYTES = 1024 * 1024
"""An answer that announces at most this size is sent in one piece."""

UNCHECKED_BYTES = 256 * 1024
"""Bytes that are sent between two questions to the kernel; for a shorter stream it is not asked."""

UNREAD_BYTES = 512 * 1024
"""Bytes of a stream that a reader may leave unread before its sender waits."""

FRAME_BYTES = 16
"""Maximum of bytes that the framing adds to a piece."""

SHORTEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.002, 0.1

Head = list[tuple[str, str]]


class StartedAnswer:
    """Is called as `start_response`: keeps status and headers. `write` of PEP 3333 is not served."""

    __slots__ = ("headers", "status")

    def __init__(self) -> None:
        self.status = 500
        self.headers: Head = []

    def __call__(self, status: str, headers: Head, exc_info: Any = None) -> None:
        self.status = int(status[:3])
        self.headers = headers


def send_answer(protocol: HttpProtocol, client: str, start: StartedAnswer, body: Iterable[bytes]) -> None:
    """Send a whole answer to the `client` (`address:port`), and close its body; holds the thread until it is sent."""
    try:
        if type(body) in (tuple, list) or _announced(start.headers) <= JOINED_BYTES:
            protocol.response_bytes(start.status, start.headers, b"".join(body))
        else:
            _stream(protocol.response_stream(start.status, start.headers), client, body)
    finally:
        closing = getattr(body, "close", None)
        if closing is not None:
            closing()


def _announced(headers: Head) -> float:
    for name, value in headers:
        if name.lower() == "content-length":
            return int(value)
    return float("inf")


def _stream(stream: Stream, client: str, body: Iterable[bytes]) -> None:
    flow = Flow(client)
    try:
        for frame in body:
            if not frame:
                continue
            if not is_sent(stream, frame):
                return
            if flow.add(len(frame)):
                flow.wait()
    except BaseException:
        stream.cut()
        raise
    finally:
        # The answer ends with the last reference to the stream. An exception that a tool keeps, or that waits for the
        # garbage collector, may keep this frame with its local variables.
        del stream


def is_sent(stream: Stream, data: bytes) -> bool:
    """Hand bytes to the web server; False when the connection is gone."""
    try:
        next(iter(stream.send_bytes(data)))
    except StopIteration:
        return True
    except Exception:  # the web server's own class, which has no public name here
        return False
    return True


class Flow:
    """The unread bytes of a stream of one reader: the true number, or at most UNCHECKED_BYTES more."""

    __slots__ = ("_acknowledged", "_client", "_has_counters", "_sent", "_socket", "_unread")

    def __init__(self, client: str) -> None:
        self._client = client
        self._socket: tuple[int, int] | None = None
        self._has_counters = False
        self._sent = self._unread = self._acknowledged = 0

    def add(self, size: int) -> bool:
        """Count a piece that was sent; return whether it is time to ask the kernel."""
        self._sent += size + FRAME_BYTES
        return self._sent >= UNCHECKED_BYTES

    def is_behind(self) -> bool | None:
        """Whether the reader left more than UNREAD_BYTES unread; None when the connection is gone or unknown."""
        if self._socket is None:
            self._socket = find_connection(self._client)
            counters = self._counters()
            self._unread = 0
        else:
            counters = self._counters()
            if counters is not None:
                self._unread -= counters.acknowledged - self._acknowledged
        self._unread += self._sent
        self._sent = 0
        if counters is None or not counters.open:
            return None
        self._acknowledged = counters.acknowledged
        return self._unread > UNREAD_BYTES

    def is_gone(self) -> bool:
        """Whether the connection was known at an earlier question and is closed now. Only before the first piece.

        Where the kernel has no counters, only a connection that the web server has closed is gone.
        """
        if self._socket is None:
            self._socket = find_connection(self._client)
            counters = self._counters()
            self._has_counters = counters is not None
            self._acknowledged = 0 if counters is None else counters.acknowledged
            return False
        if not is_socket(*self._socket):
            return True
        counters = self._counters()
        return self._has_counters if counters is None else not counters.open

    def wait(self) -> None:
        """Wait until the reader has read enough, or is gone; `slow_clients.py` disconnects one that reads nothing."""
        pause, never = SHORTEST_WAIT_SECONDS, threading.Event()
        while self.is_behind():
            never.wait(pause)
            pause = min(2 * pause, LONGEST_WAIT_SECONDS)

    def _counters(self) -> Counters | None:
        if self._socket is None:
            return None
        descriptor, number = self._socket
        return Counters.of(descriptor) if is_socket(descriptor, number) else None
