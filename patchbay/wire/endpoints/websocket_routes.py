"""Which paths are served by WebSocket, and the checks that a request passes before it becomes one.

A route is a pattern and a factory of sessions. A session has plain synchronous methods; it never sees the event loop.
Sources: RFC 6455; RFC 9110, 15.5.22 (426).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from websockets.frames import Frame, Opcode

from patchbay.errors import PatchbayError
from patchbay.jsonrpc import failure
from patchbay.protocol.streams.listener_slots import ListenerSlots
from patchbay.settings import Settings
from patchbay.wire.replies.reply import Reply, StartResponse, busy, json_reply, refusal
from patchbay.wire.requests.authentication import principal_of
from patchbay.wire.requests.security import check_host_and_origin

Environ = MutableMapping[str, Any]
Close = Callable[[int, str], None]


class TextFrames(bytes):
    """Text messages as the bytes of their frames, made once for many WebSockets; `frame_text` makes one."""


Send = Callable[[str | TextFrames], int]

NO_CLOSE = 1006
"""The close code of a connection that ended without a close (RFC 6455, 7.1.5)."""

UPGRADE = "patchbay.websocket"
"""Name in the environ of the Upgrade of a request that asks to become a WebSocket."""


@dataclass(frozen=True, slots=True)
class WebSocketRequest:
    """The request that became a WebSocket; it passed the checks of every request.

    `path` begins with a slash; `named` holds the named groups of the route's pattern; `query` is the part after the
    question mark. `headers` has lower-case names. `client` is the address of the other end, without its port. `environ`
    is the WSGI environ, for checks of access that read it.
    """

    path: str
    named: Mapping[str, str]
    query: str
    headers: Mapping[str, str]
    client: str
    environ: Mapping[str, Any]


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


def frame_text(text: bytes) -> bytes:
    """Return the frame of one text message (UTF-8) of a server (RFC 6455, 5.2): whole, and without a mask."""
    return Frame(Opcode.TEXT, text).serialize(mask=False)


@dataclass(slots=True)
class Upgrade:
    """Whether a request becomes a WebSocket: the front puts it into the environ, and a route fills it in.

    `open` makes the session; None when the request is refused. `release` gives back the place of the WebSocket.
    `sender` is the id of its principal.
    """

    open: Callable[[Send, Close], WebSocketSession] | None = None
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
    """WSGI: answers the paths of `routes`, and passes other requests to `others`.

    Each WebSocket has one of the `places` for listening streams. A request that the front marked (UPGRADE) gets 101 and
    its route; other requests get 426, or 501 if they ask for a WebSocket of a server without WebSockets.
    """

    def __init__(
        self,
        routes: WebSocketRoutes,
        settings: Settings,
        places: ListenerSlots,
        others: Callable[[Any, StartResponse], Iterable[bytes]],
    ) -> None:
        self._places = places
        self._routes = routes
        self._settings = settings
        self._others = others

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        found = self._routes.find(environ["PATH_INFO"])
        if found is None:
            return self._others(environ, start_response)
        return self._reply(environ, *found).send(start_response)

    def _reply(self, environ: Environ, match: re.Match[str], open_session: OpenSession) -> Reply:
        try:
            check_host_and_origin(environ.get("HTTP_HOST"), environ.get("HTTP_ORIGIN"), self._settings)
        except PatchbayError as problem:
            return json_reply(failure(None, problem), problem.status)
        if environ["REQUEST_METHOD"] != "GET":
            return refusal(405, "this address accepts only GET", ("Allow", "GET"))
        upgrade: Upgrade | None = environ.get(UPGRADE)
        if upgrade is None:
            if environ.get("HTTP_UPGRADE", "").lower() == "websocket":
                return refusal(501, "this web server has no WebSockets: start the hub with `patchbay serve`")
            return refusal(426, "this address is a WebSocket: connect to it with ws://", ("Upgrade", "websocket"))
        sender = principal_of(environ)
        try:
            release = self._places.open(sender, is_websocket=True)
        except PatchbayError as problem:
            return json_reply(failure(None, problem), problem.status)
        if release is None:
            return busy(None)
        upgrade.open = partial(open_session, _request(environ, match))
        upgrade.release = release
        upgrade.sender = sender.id
        return Reply(101)


def _request(environ: Environ, match: re.Match[str]) -> WebSocketRequest:
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    return WebSocketRequest(
        path=environ["PATH_INFO"],
        named=match.groupdict(default=""),
        query=environ.get("QUERY_STRING", ""),
        headers=headers,
        client=environ.get("REMOTE_ADDR", ""),
        environ=environ,
    )
