"""The native interface over a pair of byte streams, one JSON message a line (`patchbay stdio --native`).

There is no handshake. Calls run concurrently, and their items come interleaved: each names its subscription.
Unsubscribing cancels a call, and so does the end of the connection.
Source: docs/native.md.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

from patchbay.access.principals import LOCAL_OPERATOR
from patchbay.errors import PatchbayError, TooLarge
from patchbay.events import Pause
from patchbay.jsonrpc import Failure, Id, Result, encode, failure, parse, readable_id
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.incidents import incident
from patchbay.protocol.native.subscription import Native, Stream, parse_request
from patchbay.wire.pipes.call_threads import CallThreads
from patchbay.wire.pipes.conversations import Busy
from patchbay.wire.pipes.lines import Writer, lines
from patchbay.wire.pipes.stdio import MAX_CONCURRENT_CALLS

log = logging.getLogger(__name__)


class NativePipe:
    """One client on a pipe; `read`, `write` and `gone` are as in `stdio.Pipe`."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        read: Callable[[int], bytes],
        write: Callable[[memoryview], int],
        gone: Callable[[], None] = lambda: None,
    ) -> None:
        self._native = Native(dispatcher.services, dispatcher.cancellations)
        self._wire = TransportInfo("", sender=LOCAL_OPERATOR, connection=secrets.token_urlsafe(16), way="native stdio")
        self._lines = lines(read, dispatcher.services.settings.body_limit)
        self._writer = Writer(write, gone)
        self._threads = CallThreads(MAX_CONCURRENT_CALLS)

    def serve(self) -> None:
        """Take every message until the end of the input. Calls may still run then: see `finish`."""
        for line in self._lines:
            value = None
            try:
                if isinstance(line, TooLarge):
                    raise line
                value = parse(line)
                self._handle(value)
            except PatchbayError as problem:
                self._send(failure(readable_id(value), problem))
            except Exception:
                self._send(failure(readable_id(value), incident(log, "on a native pipe")))

    def finish(self, seconds: float) -> bool:
        """Wait up to `seconds` for running calls to end; return whether all have ended."""
        return self._threads.wait(seconds)

    def close(self, seconds: float) -> bool:
        """Cancel running calls and wait up to `seconds` for their end; return whether all have ended."""
        self._native.cancel_all(self._wire, "the connection ended")
        return self._threads.wait(seconds)

    def _handle(self, value: Any) -> None:
        request = parse_request(value)
        if request is None:
            return
        answer = self._native.answer(request, self._wire)
        if isinstance(answer, (Result, Failure)):
            self._send(answer)
        elif not self._threads.run(lambda: partial(self._send_all, request.id, next(answer), answer)):
            raise Busy(self._threads.max_threads)

    def _send_all(self, id: Id, first: Any, messages: Stream) -> None:
        """Send the subscription id, then every item, in a thread of its own."""
        try:
            self._send(first)
            for item in messages:
                if not isinstance(item, Pause):
                    self._send(item)
        except Exception:
            self._send(failure(id, incident(log, "on a native pipe")))

    def _send(self, item: Any) -> None:
        self._writer.send(encode(item))
