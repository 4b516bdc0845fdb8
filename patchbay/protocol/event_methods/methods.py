"""`events/list` and `events/poll`, and the capability of the extension. Source: SEP-3415."""

from __future__ import annotations

from typing import Any

from patchbay.errors import MethodNotFound
from patchbay.protocol.event_methods.requests import read_count, read_request, source_of
from patchbay.protocol.request_context import RequestContext
from patchbay.protocol.translate import stamped


def list_events(context: RequestContext) -> Any:
    """Return one page of the event types. Raises MethodNotFound for a server without any."""
    if not context.server.events:
        raise MethodNotFound(f"{context.request.method}: {context.server.name} has no event types")
    return context.services.lists.page(context.server, "events", context.caller.revision, context.params)


def poll_events(context: RequestContext) -> dict[str, Any]:
    """Return the events behind a cursor. A poll counts as a call for quotas."""
    request = read_request(context.server, context.params, "poll")
    count = read_count(context.params)
    hub = context.services.catalogue.hub
    place = hub.begin_call(context.caller.wire.sender, request.server.name, False)
    try:
        source = source_of(context.services.access, context.caller.wire.sender, request.server, request.own_name)
        batch = source.read(request.cursor, request.wanted, count)
    finally:
        if place is not None:
            place.release()
    result = {
        "events": [event for event, _ in batch.events],
        "cursor": batch.cursor,
        "truncated": batch.truncated,
        "hasMore": batch.has_more,
        "nextPollMs": batch.poll_ms,
    }
    return stamped(result, context.server, context.caller.revision)
