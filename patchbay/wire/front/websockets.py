"""WebSockets: each is a connection on the event loop and a session whose methods run on threads.

The web server makes the handshake and nothing more: its interface knows neither close codes nor pings, and it would
accept 64 MiB before a message could be refused. So the connection is read and written here, through a copy of its
descriptor, and the web server's own end stays silent until it is closed.
Sources: RFC 6455 sections 5.5, 7.4 and 8.1; https://websockets.readthedocs.io/en/stable/howto/sansio.html.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol as Framing
from websockets.protocol import Side, State

from patchbay.settings import SHARED, Settings
from patchbay.wire.endpoints.websocket_routes import NO_CLOSE, TextFrames, Upgrade, WebSocketSession, frame_text
from patchbay.wire.front.connection_index import find_connection
from patchbay.wire.front.event_loop import EventLoop
from patchbay.wire.front.frame_rates import FrameRate, FrameRates
from patchbay.wire.front.incoming_frames import IncomingFrames
from patchbay.wire.requests.rsgi import Future, Scope

log = logging.getLogger(__name__)

WAITING_MESSAGES = 64
"""Messages of one WebSocket that wait for its session; the hub reads no more of them meanwhile."""

UNSENT_BYTES = 4 * 1024 * 1024
"""Bytes that one reader may leave unread before it loses its connection."""

GOODBYE_SECONDS = 2.0
"""Seconds that the other end has to answer a close, before the connection is closed without an answer."""

STOPPING = "the hub is stopping"


class ServerEnd(Protocol):
    """The web server's end of a request that asks to become a WebSocket."""

    def accept(self) -> Future: ...
    def close(self, status: int | None = None) -> None: ...


class WebSockets:
    """The WebSockets of one worker."""

    def __init__(self, settings: Settings, loop: EventLoop) -> None:
        self._settings = settings
        self._loop = loop
        self._open: set[Connection] = set()
        self._beginning = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._workers = ThreadPoolExecutor(settings.threads, "websocket")
        self._rates = FrameRates(settings.mode == SHARED)

    @property
    def count(self) -> int:
        """The number of open WebSockets."""
        return len(self._open)

    def begin(self, scope: Scope, end: ServerEnd, upgrade: Upgrade) -> None:
        """Make a request that passed all checks a WebSocket; from any thread, without waiting."""
        with self._changed:
            self._beginning += 1
        accepted = end.accept()
        accepted.add_done_callback(partial(self._accepted, scope.client, end, upgrade), None)

    def drain(self) -> None:
        """Close every WebSocket with 1001; from any thread."""
        self._stopping = True
        self._loop.call(self._close_all)

    def wait_closed(self, seconds: float) -> bool:
        """Wait at most `seconds` until every WebSocket is closed; return whether all are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open and not self._beginning, seconds)

    def _close_all(self) -> None:
        for connection in [*self._open]:
            connection.close(CloseCode.GOING_AWAY, STOPPING)

    def _accepted(self, client: str, end: ServerEnd, upgrade: Upgrade, accepted: Future) -> None:
        """On a thread of the web server, once its part of the handshake is done."""
        try:
            transport = accepted.result()
            found = find_connection(client)
            if found is None:
                raise ConnectionError(f"the connection from {client} is not among the open descriptors")
            copy = socket.socket(fileno=os.dup(found[0]))
        except Exception as problem:
            log.warning("a WebSocket was not opened: %s", problem)
            end.close(None)
            upgrade.release()
            with self._changed:
                self._beginning -= 1
                self._changed.notify_all()
            return
        left = partial(self._on_close, upgrade)
        connection = Connection(self._settings, self._loop, self._workers, (transport, end), left)
        self._loop.call(self._start, copy, connection, upgrade)

    def _start(self, copy: socket.socket, connection: Connection, upgrade: Upgrade) -> None:
        with self._changed:
            self._open.add(connection)
            self._beginning -= 1
        assert upgrade.open is not None
        connection.begin(copy, upgrade.open, self._rates.open(upgrade.sender))
        if self._stopping:
            connection.close(CloseCode.GOING_AWAY, STOPPING)

    def _on_close(self, upgrade: Upgrade, connection: Connection) -> None:
        upgrade.release()
        self._rates.close(upgrade.sender)
        with self._changed:
            self._open.discard(connection)
            self._changed.notify_all()


class Connection(asyncio.Protocol):
    """One WebSocket. Methods run on the event loop unless they say otherwise."""

    def __init__(
        self,
        settings: Settings,
        loop: EventLoop,
        workers: ThreadPoolExecutor,
        server_end: tuple[object, ServerEnd],
        left: Callable[[Connection], None],
    ) -> None:
        self._framing = Framing(Side.SERVER, max_size=settings.body_limit)
        self._pulse = settings.keepalive
        self._patience = settings.write_timeout
        self._loop = loop
        self._workers = workers
        self._server_end: tuple[object, ServerEnd] | None = server_end
        self._on_close = left
        self._transport: asyncio.Transport | None = None
        self._session: WebSocketSession | None = None
        self._pieces: list[bytes] = []
        self._kind = Opcode.TEXT
        self._rates: tuple[FrameRate, ...] = ()
        self._incoming: IncomingFrames | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._goodbye: asyncio.TimerHandle | None = None
        self._ended = False
        # Shared by threads.
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._working = False
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0

    def begin(
        self, copy: socket.socket, open_session: Callable[..., WebSocketSession], rates: tuple[FrameRate, ...]
    ) -> None:
        """Take the connection over, and make its session. `rates` limit the frames that are read."""
        loop = asyncio.get_running_loop()
        self._rates = rates
        self._do(partial(self._open, open_session))
        task = loop.create_task(loop.connect_accepted_socket(lambda: self, copy))
        task.add_done_callback(self._taken_over)

    def _taken_over(self, task: asyncio.Task[object]) -> None:
        if task.exception() is not None:
            self.connection_lost(None)

    def _open(self, open_session: Callable[..., WebSocketSession]) -> None:
        """On a worker thread."""
        self._session = open_session(self.send_text, self.close_soon)

    # Called by the session, on any thread.

    def send_text(self, text: str | TextFrames) -> int:
        """Queue a text message, or several as frames; return the bytes that wait to be sent.

        Queues nothing for an empty text or a closed WebSocket.
        """
        transport = self._transport
        buffered = 0 if transport is None or self._ended else transport.get_write_buffer_size()
        frames = text if isinstance(text, TextFrames) or not text else frame_text(text.encode())
        with self._lock:
            if self._ended or not frames or self._unsent_bytes > UNSENT_BYTES:
                return self._unsent_bytes + buffered
            first = not self._unsent
            self._unsent.append(frames)
            self._unsent_bytes += len(frames)
            waiting = self._unsent_bytes
        if waiting > UNSENT_BYTES:
            self._loop.call(self._cut_off)
        elif first:
            self._loop.call(self._send_queued)
        return waiting + buffered

    def close_soon(self, code: int, reason: str) -> None:
        """Close after the queued messages. `code` is one of RFC 6455, 7.4; the reason has at most 123 bytes."""
        self._loop.call(self.close, code, reason)

    # Called on the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._incoming = IncomingFrames(self._framing, transport, self._rates, self._take_frames)
        self._timer = asyncio.get_running_loop().call_later(self._pulse, self._beat)
        self._send_queued()
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._incoming is not None:
            self._incoming.add(data)

    def eof_received(self) -> bool:
        return self._incoming is not None and self._incoming.end()

    def connection_lost(self, problem: Exception | None) -> None:
        if self._ended:
            return
        self._ended = True
        for timer in (self._timer, self._goodbye):
            if timer is not None:
                timer.cancel()
        if self._incoming is not None:
            self._incoming.close()
        self._on_close(self)
        self._release_server_end()
        self._do(self._tell_end)

    def close(self, code: int, reason: str) -> None:
        """Send a close frame, once, and end soon after."""
        self._send_queued()
        try:
            self._framing.send_close(code, reason.encode()[:123].decode(errors="ignore"))
        except InvalidState:
            return
        self._flush()

    def _take_frames(self) -> int:
        events = self._framing.events_received()
        for event in events:
            if isinstance(event, Frame):
                self._take_frame(event)
        self._flush()
        return len(events)

    def _take_frame(self, frame: Frame) -> None:
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode is not Opcode.CONT:
            self._kind = frame.opcode
        self._pieces.append(bytes(frame.data))
        if not frame.fin:
            return
        whole, self._pieces = b"".join(self._pieces), []
        try:
            message = whole.decode() if self._kind is Opcode.TEXT else whole
        except UnicodeDecodeError:
            self.close(CloseCode.INVALID_DATA, "a text message has to be UTF-8")
            return
        self._do(partial(self._receive, message))

    def _send_queued(self) -> None:
        """Write the queued frames; a reader that left too much unread loses its connection."""
        transport = self._transport
        if transport is None or self._ended:
            return
        with self._lock:
            frames, self._unsent = self._unsent, deque()
            self._unsent_bytes = 0
        if frames and self._framing.state is State.OPEN and not transport.is_closing():
            transport.write(frames[0] if len(frames) == 1 else b"".join(frames))
        if transport.get_write_buffer_size() > UNSENT_BYTES:
            self._cut_off()

    def _cut_off(self) -> None:
        if self._transport is not None and not self._ended:
            log.info("a WebSocket is closed: its reader left more than %d bytes unread", UNSENT_BYTES)
            self._transport.abort()

    def _flush(self) -> None:
        """Write the bytes of the framing; end the connection once both ends have closed it, or one waited too long."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        pieces = self._framing.data_to_send()
        # One write, because a transport that fails at the first one would log each further one.
        if data := b"".join(pieces):
            transport.write(data)
        if b"" in pieces and transport.can_write_eof() and not transport.is_closing():
            # Read and drop further input: closing a socket with unread bytes would lose the close frame.
            transport.write_eof()
        if transport.get_write_buffer_size() > UNSENT_BYTES:
            self._cut_off()
        if self._goodbye is None and self._framing.close_expected():
            self._goodbye = asyncio.get_running_loop().call_later(GOODBYE_SECONDS, transport.abort)

    def _beat(self) -> None:
        """Send a ping; close the connection if nothing was received since the last ping within the limit of readers."""
        loop, transport = asyncio.get_running_loop(), self._transport
        if self._ended or transport is None or self._incoming is None:
            return
        silent = loop.time() - self._incoming.heard
        if silent > self._pulse + self._patience:
            log.info("a WebSocket is closed: nothing came from its other end for %.0f s", silent)
            transport.abort()
            return
        try:
            self._framing.send_ping(b"")
        except InvalidState:
            return
        self._flush()
        self._timer = loop.call_later(self._pulse, self._beat)

    def _release_server_end(self) -> None:
        """Have the web server close its own end, which can no longer send."""
        if self._server_end is not None:
            _, end = self._server_end
            self._server_end = None
            end.close(None)

    # The session, on worker threads: in order, one call at a time.

    def _do(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._waiting.append(work)
            full = len(self._waiting) >= WAITING_MESSAGES
            idle = not self._working
            self._working = True
        if idle:
            self._workers.submit(self._work)
        if full and self._incoming is not None and not self._ended:
            self._incoming.hold()

    def _work(self) -> None:
        """On a worker thread: handle the waiting messages."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._working = False
                    return
                work = self._waiting.popleft()
                resumes = len(self._waiting) == WAITING_MESSAGES // 2
            if resumes:
                self._loop.call(self._resume)
            try:
                work()
            except Exception:
                log.exception("a WebSocket is closed: its session failed")
                self.close_soon(CloseCode.INTERNAL_ERROR, "the hub failed; its log says more")

    def _resume(self) -> None:
        if self._incoming is not None and not self._ended:
            self._incoming.go_on()

    def _receive(self, message: str | bytes) -> None:
        """On a worker thread."""
        if self._session is not None:
            self._session.receive(message)

    def _tell_end(self) -> None:
        """On a worker thread."""
        if self._session is not None:
            received = self._framing.close_rcvd
            self._session.closed(NO_CLOSE if received is None else received.code)
