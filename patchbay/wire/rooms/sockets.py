"""Rooms over WebSocket: `/rooms/<room>/ws`, and `/ws?room=<room>` as the clients of the published protocol open it.

Each message is one frame as text: `{"type": "hello" | "envelope" | "ping" | "pong", ...}`. The first one but pings is a
hello; its answers and everything of the room come as frames of the type `envelope`, whose `seq` is the place in the
log. `?after=<seq>` reads the log from there on first. A message that is not a frame closes the WebSocket with 1011, a
refused hello with 1008; an envelope that is refused does not close it.

With `?resume=new` the session stays when the connection is lost without a close, until it is idle for too long: its
calls go on, and `?resume=<session>&after=<seq>` goes on with it. A session that has servers ends at once: their calls
must not wait for an owner that may not come back.
Source: ENSO-1 as `octave-commons/promethean`, packages/enso-protocol publishes it.
"""

from __future__ import annotations

import logging
from urllib.parse import parse_qs

import orjson

from patchbay.errors import PatchbayError
from patchbay.rooms.record.envelope import Json, frame_bytes, parse_frame, pong_bytes
from patchbay.rooms.record.errors import BadFrame, RoomRefused, TooMany
from patchbay.rooms.rooms import LOBBY, Rooms
from patchbay.rooms.session import NO_LONGER_LET_IN, RoomSession
from patchbay.wire.endpoints.websocket_routes import NO_CLOSE, Close, Send, WebSocketRequest, WebSocketRoutes
from patchbay.wire.rooms.admission import RoomAdmission
from patchbay.wire.rooms.delivery import DeliveryThread, SharedBatches
from patchbay.wire.rooms.silent_sockets import SilentSockets

log = logging.getLogger(__name__)

ROUTES = (r"/rooms/(?P<room>[^/]+)/ws", r"/ws")

BAD_FRAME, REFUSED, TRY_LATER, NORMAL = 1011, 1008, 1013, 1000
"""Close codes (RFC 6455, 7.4.1): 1011 for what cannot be read, as the published protocol has it."""

UNSENT_BYTES = 256 * 1024
"""What one reader may leave unread before its deliveries wait; the log has them."""

BATCH_BYTES = 128 * 1024
"""A batch with as many bytes is sent, and others have their turn."""

NEW = "new"
"""Value of the parameter `resume` for a session that can be resumed later."""

MAX_DELIVERIES_PER_READ = 64
"""Deliveries of one batch."""


class RoomSocket:
    """One WebSocket. Frames come in order on worker threads; deliveries go out from the delivery thread."""

    def __init__(
        self,
        rooms: Rooms,
        deliveries: tuple[DeliveryThread, SharedBatches],
        admission: RoomAdmission,
        silent: SilentSockets,
        request: WebSocketRequest,
        ends: tuple[Send, Close],
    ) -> None:
        query = parse_qs(request.query)
        self._rooms = rooms
        self._deliveries, self._batches = deliveries
        self._admission = admission
        self._silent = silent
        self.sender = request.sender
        self._name = request.named.get("room") or query.get("room", [LOBBY])[0]
        self._after = query.get("after", [""])[0]
        self._resume = query.get("resume", [""])[0]
        self._send, self._close = ends
        self._session: RoomSession | None = None
        self._has_ended = False

    def receive(self, message: str | bytes) -> None:
        """Take one message."""
        if self._has_ended:
            return
        try:
            self._handle(message)
        except BadFrame as problem:
            self._end(BAD_FRAME, problem.message)
        except TooMany as problem:
            self._end(TRY_LATER, problem.message)
        except PatchbayError as problem:
            self._end(REFUSED, problem.message)

    def _handle(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            raise BadFrame("the message is binary; expected text: bytes go as __enso_binary__ in base64")
        frame = parse_frame(message, self._rooms.bounds.envelope)
        if frame.type == "ping":
            self._send(pong_bytes(frame.ts).decode())
        elif frame.type == "hello":
            if self._session is not None:
                raise BadFrame("this WebSocket already has a session; open another one for another session")
            try:
                self._join(frame.payload)
            except BadFrame as problem:
                raise RoomRefused(problem.message) from problem
        elif frame.type == "envelope":
            if self._session is None:
                raise BadFrame("an envelope came before the hello; expected a frame of the type hello first")
            self._session.receive(frame.payload)

    def _join(self, hello: Json) -> None:
        after = _read_seq(self._after)
        room = self._admission.open_to_join(self._name, self.sender)
        principal, rights = self.sender.id, self._admission.rights(room, self.sender)
        if self._resume in ("", NEW):
            session = room.join(principal, hello, after, rights)
            session.attach(self._replaced)
        else:
            session = room.rejoin(principal, self._resume, hello, after, rights)
            session.attach(self._replaced)
            if after is not None:
                session.seek(min(after, room.seq))
        self._session = session
        self._silent.discard(self)
        for envelope in session.greeting:
            self._send(frame_bytes(orjson.dumps(envelope)).decode())
        session.listen(self._wake)

    def deliver(self) -> bool:
        """Send what there is to read; whether there may be more. Called by the delivery thread alone.

        A reader that leaves too much unread is asked again later; it misses nothing that is logged.
        """
        session = self._session
        if session is None or self._has_ended:
            return False
        taken = session.read(MAX_DELIVERIES_PER_READ, BATCH_BYTES)
        if not taken:
            if session.is_closed:
                self._end(NORMAL, "the session has ended")
            return False
        frames = self._batches.frames(taken)
        self._send(frames)
        return len(taken) == MAX_DELIVERIES_PER_READ or len(frames) >= BATCH_BYTES or session.is_closed

    @property
    def is_behind(self) -> bool:
        """Whether its reader has left too much unread."""
        return not self._has_ended and self._send("") > UNSENT_BYTES

    def _end(self, code: int, reason: str) -> None:
        self._has_ended = True
        log.info("a WebSocket of the room %s ends: %s", self._name[:80], reason)
        self._close(code, reason)

    def end_revoked(self) -> None:
        """Close the WebSocket, which has no session: the credentials of its sender have ended. From any thread."""
        self._end(REFUSED, NO_LONGER_LET_IN)

    def _wake(self) -> None:
        self._deliveries.wake(self)

    def _replaced(self) -> None:
        """Another connection reads the session now."""
        self._end(NORMAL, "the session goes on over another connection")

    def closed(self, code: int) -> None:
        """End the session, its servers and its calls; one that can be resumed stays when its connection was lost."""
        was_lost = code == NO_CLOSE and not self._has_ended
        self._has_ended = True
        self._silent.discard(self)
        session = self._session
        if session is None:
            return
        session.stop_listening(self._wake)
        can_resume = bool(self._resume) and was_lost and not session.has_servers
        if session.detach(self._replaced) and not can_resume:
            session.leave("the connection ended")


def _read_seq(text: str) -> int | None:
    """Return the seq in the query, None without one. Raises BadFrame."""
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise BadFrame(f"after is {text!r:.40}; expected the seq of an entry of the log")
    return int(text)


def add_room_sockets(routes: WebSocketRoutes, rooms: Rooms, admission: RoomAdmission) -> None:
    """Serve rooms by WebSocket. `admission` lets senders into rooms."""
    deliveries = (DeliveryThread(), SharedBatches())
    silent = SilentSockets(rooms.store.bus, admission.is_current)

    def open_socket(request: WebSocketRequest, send: Send, close: Close) -> RoomSocket:
        opened = RoomSocket(rooms, deliveries, admission, silent, request, (send, close))
        silent.add(opened)
        return opened

    for pattern in ROUTES:
        routes.add(pattern, open_socket)
