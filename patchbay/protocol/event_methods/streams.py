"""`events/stream`: one subscription as a stream of notifications, until the client leaves or the hub ends it.

The stream ends with `notifications/events/terminated` when its caller may no longer see the event type, or when its
schemas changed. Source: SEP-3415, Push-Based Delivery and Subscription Termination.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from patchbay.activation import PAUSE
from patchbay.errors import EventForbidden, EventNotFound, EventUnsupported, PatchbayError, UnknownServer
from patchbay.events import Wait, wait_blocking
from patchbay.jsonrpc import Message, Notification, Result, Sign
from patchbay.occurrences.sources import Batch, EventSource
from patchbay.protocol.event_methods.requests import EventRequest, read_request, source_of
from patchbay.protocol.request_context import RequestContext
from patchbay.protocol.streams.subscriptions import SUBSCRIPTION_ID, cancelled_topic
from patchbay.protocol.translate import stamped
from patchbay.store import Subscription
from patchbay.topics import CHANGED, ENDING

HEARTBEAT_SECONDS = 15.0
"""Seconds without a message after which the hub sends a heartbeat; the specification wants one every 30 seconds."""

RETRY_SECONDS = 5.0
"""Seconds until the next reading after one that failed."""

EVENTS_AT_ONCE = 100
"""Events that the stream reads at once."""

Steps = Iterator[Message | Sign]


def stream_events(context: RequestContext) -> Steps:
    """Yield the messages of one `events/stream`. Raises the errors of `read_request` before the first one."""
    request = read_request(context.server, context.params, "push")
    source = source_of(context.services.access, context.caller.wire.sender, request.server, request.own_name)
    steps = EventStream(context, request, source).steps()
    return steps if context.caller.wire.waits and not source.waits_for_network else wait_blocking(steps)


class EventStream:
    """One stream of events of one caller."""

    def __init__(self, context: RequestContext, request: EventRequest, source: EventSource) -> None:
        self._context = context
        self._request = request
        self._store = context.services.catalogue.store
        self._source = source
        self._tag = {"_meta": {SUBSCRIPTION_ID: context.request.id}}
        self._cursor = request.cursor
        self._sent_at = time.monotonic()

    def steps(self) -> Iterator[Message | Sign | Wait]:
        """Yield confirmation, events and heartbeats, and the end if the hub ends the stream."""
        context, sender = self._context, self._context.caller.wire.sender
        topics = [*self._source.topics, f"{CHANGED}{self._request.server.name}", ENDING]
        topics += context.services.access.end_topics(sender)
        topics += [cancelled_topic(context.caller.owner)] if context.caller.owner is not None else []
        with self._store.bus.subscribe(topics) as mailbox:
            self._check_credentials()  # they may have ended before the subscription, which gets later ends only
            batch = self._source.read(self._cursor, self._request.wanted, EVENTS_AT_ONCE)
            yield self._active(batch)
            while True:
                for event, cursor in batch.events:
                    yield self._notification("event", {**event, "cursor": cursor})
                self._cursor = batch.cursor
                if not batch.has_more:
                    yield from self._wait(mailbox, batch)
                if self._is_left():
                    return
                if context.services.listeners.is_ending():
                    break
                if (reason := self._termination()) is not None:
                    yield self._notification("terminated", {"error": _error(reason)})
                    break
                try:
                    batch = self._source.read(self._cursor, self._request.wanted, EVENTS_AT_ONCE)
                except PatchbayError as problem:
                    yield self._notification("error", {"error": _error(problem)})
                    batch = Batch((), self._cursor, poll_ms=int(RETRY_SECONDS * 1000))
                    continue
                if batch.truncated:
                    yield self._active(batch)
        result = {"_meta": dict(self._tag["_meta"])}
        yield Result(context.request.id, stamped(result, context.server, context.caller.revision))

    def _wait(self, mailbox: Subscription, batch: Batch) -> Iterator[Message | Sign | Wait]:
        """Wait for news; without any for a while, send a heartbeat."""
        seconds = HEARTBEAT_SECONDS
        if self._source.waits_for_network:
            seconds = min(seconds, batch.poll_ms / 1000)
        yield Wait(mailbox, seconds)
        while mailbox.get(0) is not None:
            pass
        if time.monotonic() - self._sent_at >= HEARTBEAT_SECONDS:
            yield self._notification("heartbeat", {"cursor": self._cursor})
        else:
            yield PAUSE

    def _is_left(self) -> bool:
        return bool(self._context.cancelled) and not self._context.services.listeners.is_ending()

    def _termination(self) -> PatchbayError | None:
        """Return why the subscription ends now, None if it goes on."""
        context, request = self._context, self._request
        try:
            self._check_credentials()
        except EventForbidden as problem:
            return problem
        return why_ended(context, request)

    def _check_credentials(self) -> None:
        """Raise EventForbidden when the credentials of the caller have ended."""
        if not self._context.services.access.may_listen(self._context.caller.wire.sender):
            raise EventForbidden(
                "the credentials of this subscription are no longer valid", {"reason": "Access revoked"}
            )

    def _active(self, batch: Batch) -> Notification:
        return self._notification("active", {"cursor": batch.cursor, "truncated": batch.truncated})

    def _notification(self, what: str, params: Mapping[str, Any]) -> Notification:
        self._sent_at = time.monotonic()
        return Notification(f"notifications/events/{what}", {**params, **self._tag})


def why_ended(context: RequestContext, request: EventRequest) -> PatchbayError | None:
    """Return why an event type is no longer what a subscription of it began with; None if it is."""
    name = request.wanted.name
    try:
        now = context.services.access.catalogue_for(context.caller.wire.sender).find(request.server.name)
        descriptor = now.events.get(request.own_name)
    except UnknownServer:
        descriptor = None
    if descriptor is None:
        return EventNotFound(f"the event type {name} is no longer here for this caller")
    for member in ("payloadSchema", "inputSchema"):
        if descriptor.wire[member] != request.descriptor.wire[member]:
            return EventUnsupported(
                f"the {member} of {name} changed; list the event types and subscribe again",
                {"feature": member, "reason": "schema_changed"},
            )
    return None


def _error(problem: PatchbayError) -> dict[str, Any]:
    data = {"data": problem.data} if isinstance(problem.data, dict) else {}
    return {"code": problem.code, "message": problem.message, **data}
