"""What a request about events names: the event type as its caller may see it, checked arguments, and its source.

Source: SEP-3415, Poll-Based Delivery and Cursor Lifecycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from typing import Any, cast

import orjson

from patchbay.access.control import AccessControl
from patchbay.access.principals import Principal
from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.servers.server import Server
from patchbay.client.connection.list_pages import EVENTS as EVENTS
from patchbay.descriptors import Descriptor
from patchbay.errors import EventNotFound, EventUnsupported, InvalidParams, MethodNotFound
from patchbay.occurrences.arguments import check_arguments
from patchbay.occurrences.cursors import MAX_CURSOR_CHARACTERS
from patchbay.occurrences.sources import EventQuery, EventSource, JournalSource, NameSource
from patchbay.topics import SERVERS, VARIABLES
from patchbay.upstreams.connections.upstream_events import UpstreamSource
from patchbay.upstreams.pushing.pushed_events import PushedSource

DEFAULT_EVENTS, MAX_EVENTS = 100, 500
"""Events in the answer to one poll."""


@dataclass(frozen=True, slots=True)
class EventRequest:
    """An event type, the server that owns it, its name there, and what the caller wants of it."""

    server: Server
    own_name: str
    descriptor: Descriptor
    wanted: EventQuery
    cursor: str | None


def read_request(server: Server, params: Mapping[str, Any], mode: str) -> EventRequest:
    """Return the request of the params of `events/poll`, `events/stream` or `events/subscribe`.

    `server` has what the caller may see. Raises MethodNotFound for a server without event types, EventNotFound,
    EventUnsupported for a delivery `mode` that the type lacks, and InvalidParams.
    """
    if not server.events:
        raise MethodNotFound(f"{server.name} has no event types")
    name = params.get("name")
    if not isinstance(name, str):
        raise InvalidParams("params.name has to be a string")
    descriptor, owner, own_name = server.events.get(name), server, name
    if isinstance(server, Aggregate) and (found := server.owner("events", name)) is not None:
        owner, own_name = found
        descriptor = server.events.get(name) or owner.events.get(own_name)
    if descriptor is None:
        close = get_close_matches(name, server.events, 3)
        raise EventNotFound(
            f"there is no event type {name!r:.140}" + (f"; did you mean {', '.join(close)}?" if close else "")
        )
    if mode not in descriptor.wire["delivery"]:
        raise EventUnsupported(
            f"the event type {name} has no {mode} delivery; it has {', '.join(descriptor.wire['delivery'])}",
            {"feature": "deliveryMode", "value": mode},
        )
    arguments = check_arguments(descriptor.wire["inputSchema"], params.get("arguments"))
    return EventRequest(
        owner, own_name, descriptor, EventQuery(name, arguments, read_milliseconds(params, "maxAgeMs")), _cursor(params)
    )


def source_of(access: AccessControl, sender: Principal, server: Server, own_name: str) -> EventSource:
    """Return the source of an event type of a server, with the events that a principal may see at each reading."""
    store = access.catalogue_for(sender).store
    place, target = f"{server.name}/{own_name}", server.events[own_name].target
    source, resource = target.get("source"), target.get("resource")
    if source is None and resource is None:
        return JournalSource(store, server.name, own_name)
    if source is None:

        def may_read(data: Mapping[str, Any]) -> bool:
            return access.catalogue_for(sender).may_read(server.name, str(data.get(str(resource))))

        return JournalSource(store, server.name, own_name, may_read)
    if source.get("upstream") == "push" and server.upstream is not None:
        return PushedSource(store, server.name, own_name, server.upstream.pushed)
    if "upstream" in source and server.upstream is not None:
        return UpstreamSource(server.upstream, own_name, store.now())
    if "audience" in source and server.audience is not None:
        return cast(EventSource, server.audience.messages(None if sender.is_operator else sender.id, place))
    if "variable" in source:
        return NameSource(store, place, (), f"{VARIABLES}{source['variable']}")
    return NameSource(store, place, (VARIABLES if "variables" in source else SERVERS,))


def schemas_digest(wire: Mapping[str, Any]) -> str:
    """Return the digest of the schemas of an event type."""
    schemas = [wire["inputSchema"], wire["payloadSchema"]]
    return sha256(orjson.dumps(schemas, option=orjson.OPT_SORT_KEYS)).hexdigest()


def read_count(params: Mapping[str, Any]) -> int:
    """Return how many events an answer may have. Raises InvalidParams."""
    count = params.get("maxEvents")
    if count is None:
        return DEFAULT_EVENTS
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidParams("params.maxEvents has to be a whole number of 1 or more")
    return min(count, MAX_EVENTS)


def read_milliseconds(params: Mapping[str, Any], member: str) -> int | None:
    """Return a number of milliseconds, None without one. Raises InvalidParams."""
    value = params.get(member)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 or value != int(value):
        raise InvalidParams(f"params.{member} has to be a whole number of milliseconds, 0 or more")
    return int(value)


def _cursor(params: Mapping[str, Any]) -> str | None:
    cursor = params.get("cursor")
    if cursor is not None and (not isinstance(cursor, str) or len(cursor) > MAX_CURSOR_CHARACTERS):
        raise InvalidParams(f"params.cursor has to be null or a string of at most {MAX_CURSOR_CHARACTERS} characters")
    return cursor
