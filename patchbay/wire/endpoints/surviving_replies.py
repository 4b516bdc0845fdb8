"""Answers of calls that survive their connection, over HTTP: begin the call or join it, and send its messages.

The events of the stream have ids `<call>-<n>`; a caller that comes back names the last `n` as `io.patchbay/after`. The
end of the connection does not cancel such a call: its caller cancels it by `notifications/cancelled` with the UUID.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

from patchbay.access.authentication import Unauthorized
from patchbay.catalogue.contents.results import key_in_query
from patchbay.catalogue.servers.server import Server
from patchbay.coordination.process_liveness import Heartbeat
from patchbay.errors import PatchbayError
from patchbay.events import wait_blocking
from patchbay.jsonrpc import Failure, Request, Result, failure
from patchbay.messages.callers import Caller
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.results.event_limits import is_too_large
from patchbay.protocol.streams.call_names import CallName, name_call
from patchbay.protocol.streams.surviving_calls import SurvivingCalls
from patchbay.settings import Settings
from patchbay.wire.replies.accept import JSON
from patchbay.wire.replies.reply import ListeningBody, Reply, json_reply, stream_reply
from patchbay.wire.replies.sse import replay_body

REVOKED = "the credentials of this call were revoked while it ran; the call goes on, its result is not for them"
STOPPING = (
    "the hub stops before this call has ended; the call may still end: send the same request again to get its answer"
)


class SurvivingReplies:
    """Answers the calls of one process that survive."""

    def __init__(self, dispatcher: Dispatcher, settings: Settings, heartbeat: Heartbeat) -> None:
        self._dispatcher = dispatcher
        self._joins_repeats = settings.join_repeats == "safe"
        seconds = settings.replay_minutes * 60
        self._calls = SurvivingCalls(
            *(heartbeat, seconds, settings.replay_size, settings.tasks, settings.keepalive),
            dispatcher.services.ledger,
        )

    def name(self, request: Request, caller: Caller, server: Server) -> CallName | None:
        """Return the name of a call that survives, None for any other request. Raises InvalidParams."""
        name = name_call(request, caller, server, self._joins_repeats)
        return name if name is not None and self._calls.may_begin(name) else None

    def reply(self, request: Request, caller: Caller, server: Server, name: CallName) -> Reply:
        """Begin a call or join it; return its messages from `name.after` on, as a stream or, for JSON, the answer."""
        try:
            refused = self._begin(request, caller, server, name)
        except PatchbayError as problem:
            refused = failure(request.id, problem)
        if refused is not None:
            return json_reply(refused, refused.status if isinstance(refused, Failure) else 200)
        access, sender = self._dispatcher.services.access, caller.wire.sender
        if not caller.wire.streams:
            name = replace(name, after=sys.maxsize)  # an answer in JSON has no notifications
        read_whole = None if caller.wire.streams else partial(self._read_whole, caller.wire.principal)
        events = self._calls.follow(name, request, lambda: access.is_current(sender), read_whole)
        if caller.wire.streams:
            body = ListeningBody(replay_body(events))
            self._dispatcher.streams.add(body)
            return stream_reply(body)
        answers = [item[1] for item in wait_blocking(events) if isinstance(item, tuple)]
        if answers:
            return Reply(200, answers[0], JSON)
        if not access.is_current(sender):
            return json_reply(failure(request.id, Unauthorized(REVOKED)), 401)
        return json_reply(failure(request.id, PatchbayError(STOPPING)), 503)

    def _read_whole(self, principal: str, uri: str) -> bytes | None:
        """Return the whole of a large answer; None when it is no longer kept."""
        parts = urlsplit(uri)
        return self._dispatcher.services.catalogue.contents.results.read(
            parts.netloc, key_in_query(parts.query), principal
        )

    def _begin(self, request: Request, caller: Caller, server: Server, name: CallName) -> Result | Failure | None:
        """Begin the call unless it has begun; return an answer that refuses or fails it at once.

        Also return a result that is there at once and too large for an event, so that it comes whole, as JSON.
        """
        run = self._calls.begin(name)
        if run is None:
            return None
        keep = self._dispatcher.services.keep(caller.wire.principal)
        answers = self._dispatcher.answer(request, caller, server, name)
        # On this thread until the first message, at most a quarter of a second: an early error keeps its HTTP status.
        first = next(answers, None)
        if isinstance(first, Result) and first.retry_after is not None:
            self._calls.refuse(run, first)
            return first
        self._calls.start(run, first, answers, request, keep)
        if isinstance(first, Failure) or (isinstance(first, Result) and is_too_large(first)):
            return first
        return None
