"""One client on a channel for messages in both directions: a pipe, or the pair of routes of 2024-11-05.

A message that changes the terms of later messages is answered before the next one is read; threads answer all others,
so that a long call does not delay a ping or its own cancellation.
Source: MCP specification, basic/lifecycle and basic/transports.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from patchbay.catalogue.servers.server import Server
from patchbay.errors import InvalidRequest, PatchbayError
from patchbay.jsonrpc import (
    Failure,
    Id,
    Message,
    Notification,
    Request,
    Result,
    Sign,
    encode,
    failure,
    message,
    readable_id,
)
from patchbay.messages.callers import LegacySession
from patchbay.protocol.admission.handshake import AT_ONCE, ConnectionState
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.incidents import incident
from patchbay.protocol.translate import not_served
from patchbay.views.sse import MAX_EVENT_BYTES
from patchbay.wire.pipes.batches import check_batch
from patchbay.wire.pipes.call_threads import CallThreads

log = logging.getLogger(__name__)

Answers = Iterator[Message | Sign]
Send = Callable[[bytes], None]
Opened = Callable[[LegacySession, Server], None]


class Busy(PatchbayError):
    """All threads for calls are in use."""

    status = 503

    def __init__(self, max_threads: int) -> None:
        super().__init__(f"busy: {max_threads} calls are running, which is the limit; try again later")


class Conversation:
    """Takes the messages of one client and sends the answers, each as one line of JSON.

    `opened` is called when the handshake opened the session, before its answer is sent; `encoded` encodes a message.
    One thread at a time may call `handle`; many threads call `send`.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        connection: ConnectionState,
        send: Send,
        threads: CallThreads,
        opened: Opened,
        encoded: Callable[[Message], bytes] = encode,
    ) -> None:
        self._dispatcher = dispatcher
        self._connection = connection
        self._send = send
        self._threads = threads
        self._opened = opened
        self._encoded = encoded

    def handle(self, value: Any) -> None:
        """Take one parsed value: a message, or an array of them.

        Raises InvalidRequest for another value, and Busy if all threads are in use; then no call has begun.
        """
        if isinstance(value, list):
            self._take_batch(value)
            return
        sent = message(value)
        if not isinstance(sent, Request) or sent.method in AT_ONCE:
            self._send_all(self._begin(sent))
        elif not self._threads.run(lambda: partial(self._answer, sent.id, self._begin(sent))):
            raise Busy(self._threads.max_threads)

    def _take_batch(self, values: list[Any]) -> None:
        session = self._connection.session
        if session is None:
            raise InvalidRequest("an array of messages is served only after initialize, in 2025-03-26 and before")
        check_batch(values, session.revision)
        if not self._threads.run(
            lambda: partial(self._answer_batch, [self._begun_of_batch(value) for value in values])
        ):
            raise Busy(self._threads.max_threads)

    def _begin(self, sent: Message) -> Answers:
        """Admit a message, register it for cancellation, and return its answers."""
        before = self._connection.session
        try:
            wire = self._connection.wire
            server = self._dispatcher.server(wire.endpoint, wire.sender, wire.operator)
            caller = self._connection.admit(sent)
        except PatchbayError as problem:
            if not isinstance(sent, Request):
                log.debug("a message that is not a request was ignored: %s", problem.message)
                return iter(())
            return iter((not_served(problem, sent.id, None),))
        if before is None and caller.session is not None:
            self._opened(caller.session, server)
        return self._dispatcher.answer(sent, caller, server)

    def _begun_of_batch(self, value: Any) -> Answers:
        try:
            return self._begin(message(value))
        except PatchbayError as problem:
            return iter((failure(readable_id(value), problem),))

    def _answer(self, id: Id, answers: Answers) -> None:
        """Send every answer, in a thread of its own; a failure of the hub becomes an error answer."""
        try:
            self._send_all(answers)
        except Exception:
            self._send(encode(failure(id, incident(log, "in a conversation"))))

    def _answer_batch(self, begun: list[Answers]) -> None:
        """Send the notifications of calls at once and their results together at the end, in a thread of its own."""
        results: list[bytes] = []
        try:
            for answers in begun:
                self._send_all(answers, results)
        except Exception:
            results.append(encode(failure(None, incident(log, "in a conversation"))))
        if results:
            self._send_results(results)

    def _send_results(self, results: list[bytes]) -> None:
        """Send results together, or one by one if together they are too large for an event of a stream."""
        if self._encoded is encode or sum(map(len, results)) + len(results) < MAX_EVENT_BYTES:
            self._send(b"[" + b",".join(results) + b"]")
            return
        for result in results:
            self._send(result)

    def _send_all(self, answers: Answers, results: list[bytes] | None = None) -> None:
        for item in answers:
            if results is not None and isinstance(item, (Result, Failure)):
                results.append(self._encoded(item))
            elif isinstance(item, (Request, Notification, Result, Failure)):
                self._send(self._encoded(item))
