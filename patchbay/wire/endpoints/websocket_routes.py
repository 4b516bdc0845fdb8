"""Which paths are served by WebSocket, and the checks that a request passes before it becomes one.

A route is a pattern and a factory of sessions. A session has plain synchronous methods; it never sees the event loop.
Sources: RFC 6455; RFC 9110, 15.5.22 (426).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from websockets.frames import Frame, Opcode

from patchbay.access.principals import LOCAL, Principal
from patchbay.errors import PatchbayError
from patchbay.jsonrpc import failure
from patchbay.protocol.streams.listener_slots import ListenerSlots
from patchbay.wire.replies.reply import Reply, busy, json_reply, refusal
from patchbay.wire.requests.request import Request

Close = Callable[[int, str], None]


class TextFrames(bytes):
    """Text messages as the bytes of their frames, made once for many WebSockets; `frame_text` makes one."""


Send = Callable[[str | TextFrames], int]

NO_CLOSE = 1006
"""The close code of a connection that ended without a close (RFC 6455, 7.1.5)."""


@dataclass(frozen=True, slots=True)
class WebSocketRequest:
    """The request that became a WebSocket; it passed the checks of every request.

    `path` begins with a slash; `named` holds the named groups of the route's pattern; `query` is the part after the
    question mark. `headers` has lower-case names. `client` is the address of the other end, without its port. `sender`
    is the principal that sent it.
    """

    path: str
    named: Mapping[str, str]
    query: str
    headers: Mapping[str, str]
    client: str
    sender: Principal = LOCAL


class WebSocketSession(Protocol):
    """One WebSocket, seen from the hub. The methods run on worker threads, in order and one at a time."""

    def receive(self, message: str | bytes) -> None:
        """Take one message: text, or bytes of a binary message. An exception closes the WebSocket with 1011."""
        ...

    def closed(self, code: int) -> None:
        """Called once, when either end has closed the WebSocket and all received messages were handled.

        `code` is the close code of the other end; NO_CLOSE when the connection was lost without one.
        """
        ...


OpenSession = Callable[[WebSocketRequest, Send, Close], WebSocketSession]
"""Makes the session of a new WebSocket, on a worker thread.

`send(text)` and `close(code, reason)` may be called from any thread, at once and later; neither waits. `send` takes
frames too, which many WebSockets share. Messages to a closed WebSocket are dropped. A reader that leaves
more than 4 MiB unread loses its connection: `send` returns how many bytes it has left unread so far, and sends no
message for an empty text.
"""


OpenSocket = Callable[[Send, Close], WebSocketSession]
"""Makes the session of one request that becomes a WebSocket."""


def frame_text(text: bytes) -> bytes:
    """Return the frame of one text message (UTF-8) of a server (RFC 6455, 5.2): whole, and without a mask."""
    return Frame(Opcode.TEXT, text).serialize(mask=False)


@dataclass(slots=True)
class Upgrade(Reply):
    """The answer to a request that becomes a WebSocket.

    `open` makes the session. `release` gives back the place of the WebSocket. `sender` is the id of its principal.
    """

    open: OpenSocket | None = None
    release: Callable[[], None] = lambda: None
    sender: str = ""


@dataclass(slots=True)
class WebSocketRoutes:
    """The table of the routes. `add` before the first request."""

    _rows: list[tuple[re.Pattern[str], OpenSession]] = field(default_factory=list)

    def add(self, pattern: str, open_session: OpenSession) -> None:
        """Serve the paths that a regular expression matches as a whole, such as `/rooms/(?P<room>[^/]+)/ws`."""
        self._rows.append((re.compile(pattern), open_session))

    def find(self, path: str) -> tuple[re.Match[str], OpenSession] | None:
        """The first route of a path, and how its pattern matched."""
        for pattern, open_session in self._rows:
            found = pattern.fullmatch(path)
            if found is not None:
                return found, open_session
        return None


class WebSocketUpgrades:
    """Answers the paths of `routes`. Each WebSocket has one of the `places` for listening streams.

    A request that may become a WebSocket gets an Upgrade; others get 426, or 501 if they ask for a WebSocket of a web
    server without WebSockets.
    """

    def __init__(self, routes: WebSocketRoutes, places: ListenerSlots) -> None:
        self._places = places
        self._routes = routes

    def find(self, request: Request) -> Callable[[Request], Reply] | None:
        """Return what answers a request, None for one of another path."""
        found = self._routes.find(request.path)
        return None if found is None else partial(self._reply, *found)

    def _reply(self, match: re.Match[str], open_session: OpenSession, request: Request) -> Reply:
        if request.method != "GET":
            return refusal(405, "this address accepts only GET", ("Allow", "GET"))
        if not request.may_upgrade:
            if request.headers.get("upgrade", "").lower() == "websocket":
                return refusal(501, "this web server has no WebSockets: start the hub with `patchbay serve`")
            return refusal(426, "this address is a WebSocket: connect to it with ws://", ("Upgrade", "websocket"))
        try:
            release = self._places.open(request.sender, is_websocket=True)
        except PatchbayError as problem:
            return json_reply(failure(None, problem), problem.status)
        if release is None:
            return busy(None)
        opened = WebSocketRequest(
            path=request.path,
            named=match.groupdict(default=""),
            query=request.query,
            headers=request.headers,
            client=request.address,
            sender=request.sender,
        )
        return Upgrade(101, open=partial(open_session, opened), release=release, sender=request.sender.id)
