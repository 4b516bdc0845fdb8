"""The state of one client on one connection: decides its era once, and enforces the handshake.

The first accepted request decides the era for the whole connection: `initialize` opens its only session, a request with
a revision in `_meta` makes it modern. A refused request decides nothing, so that a client may try both. A notification
never decides.
Source: MCP specification, basic/lifecycle; 2026-07-28, basic/versioning.
"""

from __future__ import annotations

from patchbay.errors import InvalidRequest, PatchbayError, UnsupportedVersion
from patchbay.jsonrpc import Message, Notification, Request
from patchbay.messages.callers import Caller, LegacySession, TransportInfo
from patchbay.messages.versions import MODERN, REVISIONS
from patchbay.protocol.admission.admission import admit_legacy, admit_modern, claims
from patchbay.protocol.admission.sessions import Sessions

AT_ONCE = frozenset(
    {
        "initialize",
        "ping",
        "server/discover",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
    }
)
"""Methods that are answered before the next message is read: they change the terms of later messages, or they check
that the connection works, which must not wait for other calls."""


class NotInitialized(PatchbayError):
    """A request came before the handshake was complete; `data` is `{"reason": ...}`."""

    code, status = -32002, 400

    def __init__(self, method: str, begun: bool = False) -> None:
        reason = f"{method} came before initialize: send initialize first, or name a revision in params._meta"
        if begun:
            reason = f"{method} came before notifications/initialized: send that notification first"
        super().__init__("Server initializing" if begun else "Server not initialized", {"reason": reason})


class ConnectionState:
    """The state of one connection. `session` is its session, once `initialize` opened it.

    With `handshake_only` the connection cannot become modern. Not for use from several threads.
    """

    def __init__(
        self,
        wire: TransportInfo,
        sessions: Sessions,
        session: LegacySession | None = None,
        handshake_only: bool = False,
    ) -> None:
        self.wire = wire
        self.session = session
        self._sessions = sessions
        self._modern = False
        self._initializing = False
        self._handshake_only = handshake_only

    def admit(self, message: Message) -> Caller:
        """Return the terms of the next message. Raises NotInitialized, or the error of the first failing check."""
        if self._modern:
            return self._in_modern(message)
        if self.session is not None:
            return self._in_session(message, self.session)
        if isinstance(message, Request) and message.method != "initialize" and claims(message.params):
            return self._claimed(message)
        if isinstance(message, Request) and message.method not in ("initialize", "ping"):
            raise NotInitialized(message.method)
        caller = admit_legacy(message, self.wire, self._sessions)
        self.session = caller.session
        self._initializing = caller.session is not None
        return caller

    def _claimed(self, request: Request) -> Caller:
        if self._handshake_only:
            raise InvalidRequest(f"this address serves revisions with a handshake; post to /mcp/{self.wire.endpoint}")
        caller = admit_modern(request, self.wire)
        self._modern = True
        return caller

    def _in_modern(self, message: Message) -> Caller:
        if isinstance(message, Notification):
            return Caller(REVISIONS[MODERN[-1]], {}, None, self.wire)
        if not isinstance(message, Request):
            raise InvalidRequest("a client does not send responses in this revision")
        if message.method == "initialize":
            raise UnsupportedVersion(str(message.params.get("protocolVersion", "none"))[:40], MODERN)
        return admit_modern(message, self.wire)

    def _in_session(self, message: Message, session: LegacySession) -> Caller:
        if isinstance(message, Request) and message.method == "initialize":
            raise InvalidRequest(f"this connection is initialized already, for {session.revision.name}")
        if isinstance(message, Request) and claims(message.params):
            raise InvalidRequest(f"this connection was opened by initialize, for {session.revision.name}: claim none")
        if isinstance(message, Notification) and message.method == "notifications/initialized":
            self._initializing = False
        if self._initializing and isinstance(message, Request) and message.method != "ping":
            raise NotInitialized(message.method, begun=True)
        return Caller(session.revision, session.capabilities, session.level, self.wire, session)
