"""MCP over a pair of byte streams, one JSON message a line, in all five revisions.

Decides nothing about MCP: the era and the handshake are the connection's (`protocol/handshake.py`), the answers the
dispatcher's. The client's stream of changes is this same pipe: in a session it is told without asking.
Sources: SPEC-DIGEST 1.15, 2.5; REQUIREMENTS SUB-37, SUB-C12, X-3, X-7.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator

from patchbay.catalogue.servers import Server
from patchbay.errors import PatchbayError, TooLarge
from patchbay.events import Pause
from patchbay.jsonrpc import Failure, encode, parse, readable_id
from patchbay.protocol.callers import LegacySession, TransportInfo
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.handshake import ConnectionState
from patchbay.protocol.incidents import incident
from patchbay.protocol.streams.subscriptions import NumberedMessage
from patchbay.protocol.translate import not_served
from patchbay.store import wait_blocking
from patchbay.wire.call_threads import CallThreads
from patchbay.wire.conversations import Conversation
from patchbay.wire.lines import Writer, lines

log = logging.getLogger(__name__)

MAX_CONCURRENT_CALLS = 64
"""Calls and listening streams at a time."""


class Pipe:
    """One client on a pipe.

    `read` gives some bytes each time and none at the end, `write` says how many of the given bytes it took, and
    `gone` is called when nobody reads what is written.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        endpoint: str,
        read: Callable[[int], bytes],
        write: Callable[[memoryview], int],
        gone: Callable[[], None] = lambda: None,
    ) -> None:
        desk = dispatcher.desk
        self._dispatcher = dispatcher
        # The hub's data folder is this user's own, as the hub's token in it is.
        wire = TransportInfo(endpoint, connection=secrets.token_urlsafe(16), way="stdio", operator=True)
        self._connection = ConnectionState(wire, desk.sessions)
        self._lines = lines(read, desk.settings.body_limit)
        self._writer = Writer(write, gone)
        self._crew = CallThreads(MAX_CONCURRENT_CALLS)
        self._conversation = Conversation(
            dispatcher, self._connection, self._writer.send, self._crew, self._listen_for_changes
        )
        self._changes: Iterator[NumberedMessage | Pause] | None = None

    def serve(self) -> None:
        """Take every message, until there are no more. Answers may still be on their way then: see `finish`."""
        for line in self._lines:
            self._take(line)
            if self._changes is not None:
                threading.Thread(target=self._tell, args=(self._changes,), name="changes", daemon=True).start()
                self._changes = None

    def finish(self, seconds: float) -> bool:
        """Let what is being answered come to its end for `seconds`; whether all has ended."""
        return self._crew.wait(seconds)

    def close(self, seconds: float) -> bool:
        """Cancel what is still being answered and wait `seconds` for it; whether all has ended."""
        why = "the connection ended"
        if self._connection.session is not None:
            self._dispatcher.end(self._connection.session, why)
        elif self._connection.wire.connection is not None:
            self._dispatcher.cancel_all(self._connection.wire.connection, why)
        return self._crew.wait(seconds)

    def _take(self, line: bytes | TooLarge) -> None:
        value = None
        try:
            if isinstance(line, TooLarge):
                raise line
            value = parse(line)
            self._conversation.take(value)
        except PatchbayError as problem:
            self._writer.send(encode(self._refusal(value, problem)))
        except Exception:
            self._writer.send(encode(self._refusal(value, incident(log, "on a pipe"))))

    def _refusal(self, value: object, problem: PatchbayError) -> Failure:
        session = self._connection.session
        return not_served(problem, readable_id(value), session.revision if session is not None else None)

    def _listen_for_changes(self, session: LegacySession, server: Server) -> None:
        """Begin to listen now, so that no change after the answer to initialize is lost; tell of them after it."""
        self._changes = wait_blocking(self._dispatcher.desk.listeners.stream(server, session, None))
        next(self._changes)

    def _tell(self, changes: Iterator[NumberedMessage | Pause]) -> None:
        for item in changes:
            if isinstance(item, NumberedMessage) and item.message is not None:
                self._writer.send(encode(item.message))
