"""MCP over a pair of byte streams, one JSON message a line, in all five revisions.

`protocol/admission/handshake.py` decides the era and enforces the handshake; the dispatcher makes the answers. In a
session the pipe also carries the notifications about changes.
Source: MCP specification, basic/transports (stdio).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator

from patchbay.access.principals import LOCAL_OPERATOR
from patchbay.background import run_in_background
from patchbay.catalogue.servers.server import Server
from patchbay.errors import PatchbayError, TooLarge
from patchbay.events import Pause, wait_blocking
from patchbay.jsonrpc import Failure, encode, parse, readable_id
from patchbay.messages.callers import LegacySession, TransportInfo, is_owner
from patchbay.protocol.admission.handshake import ConnectionState
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.incidents import incident
from patchbay.protocol.streams.subscriptions import NumberedMessage
from patchbay.protocol.translate import not_served
from patchbay.wire.pipes.call_threads import CallThreads
from patchbay.wire.pipes.conversations import Conversation
from patchbay.wire.pipes.lines import Writer, lines

log = logging.getLogger(__name__)

MAX_CONCURRENT_CALLS = 64
"""Limit on the calls and listening streams at once."""


class Pipe:
    """One client on a pipe.

    `read` returns some bytes at each call and none at the end, `write` returns the number of written bytes, and `gone`
    is called when the reader has left.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        endpoint: str,
        read: Callable[[int], bytes],
        write: Callable[[memoryview], int],
        gone: Callable[[], None] = lambda: None,
    ) -> None:
        services = dispatcher.services
        self._dispatcher = dispatcher
        # This user owns the hub's data folder, and so the operator's token in it.
        connection = secrets.token_urlsafe(16)
        wire = TransportInfo(
            *(endpoint, None, LOCAL_OPERATOR), connection=connection, way="stdio", operator=True, shows_raised=is_owner
        )
        self._connection = ConnectionState(wire, services.sessions)
        self._lines = lines(read, services.settings.body_limit)
        self._writer = Writer(write, gone)
        self._threads = CallThreads(MAX_CONCURRENT_CALLS)
        self._conversation = Conversation(
            dispatcher, self._connection, self._writer.send, self._threads, self._listen_for_changes
        )
        self._changes: Iterator[NumberedMessage | Pause] | None = None

    def serve(self) -> None:
        """Take every message until the end of the input. Calls may still run then: see `finish`."""
        for line in self._lines:
            self._handle(line)
            if self._changes is not None:
                run_in_background("changes", self._send_changes, self._changes)
                self._changes = None

    def finish(self, seconds: float) -> bool:
        """Wait up to `seconds` for running calls to end; return whether all have ended."""
        return self._threads.wait(seconds)

    def close(self, seconds: float) -> bool:
        """Cancel running calls and wait up to `seconds` for their end; return whether all have ended."""
        why = "the connection ended"
        if self._connection.session is not None:
            self._dispatcher.end(self._connection.session, why)
        elif self._connection.wire.connection is not None:
            self._dispatcher.cancel_all(self._connection.wire.connection, why)
        return self._threads.wait(seconds)

    def _handle(self, line: bytes | TooLarge) -> None:
        value = None
        try:
            if isinstance(line, TooLarge):
                raise line
            value = parse(line)
            self._conversation.handle(value)
        except PatchbayError as problem:
            self._writer.send(encode(self._refusal(value, problem)))
        except Exception:
            self._writer.send(encode(self._refusal(value, incident(log, "on a pipe"))))

    def _refusal(self, value: object, problem: PatchbayError) -> Failure:
        session = self._connection.session
        return not_served(problem, readable_id(value), session.revision if session is not None else None)

    def _listen_for_changes(self, session: LegacySession, server: Server) -> None:
        """Subscribe now, so that no change after the answer to initialize is lost; send them after it."""
        self._changes = wait_blocking(
            self._dispatcher.services.listeners.stream(server, session, None, self._connection.wire.sender)
        )
        next(self._changes)

    def _send_changes(self, changes: Iterator[NumberedMessage | Pause]) -> None:
        for item in changes:
            if isinstance(item, NumberedMessage) and item.message is not None:
                self._writer.send(encode(item.message))
