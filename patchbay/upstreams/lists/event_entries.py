"""The event types of a mounted server: what they have to be, and what the hub offers of them.

Source: SEP-3415, Listing Available Events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from patchbay.arguments import validator
from patchbay.errors import ConfigError
from patchbay.occurrences.arguments import filter_schema
from patchbay.occurrences.event_types import DELIVERY


def find_faults(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield why an event type of a mounted server cannot be served."""
    modes = entry.get("delivery")
    if not isinstance(modes, list) or not {"poll", "push"} & {one for one in modes if isinstance(one, str)}:
        yield f"its delivery is {modes!r:.80}; the hub needs poll or push, and gives its clients the other modes itself"
    elif is_pushed(entry) and isinstance(schema := entry.get("inputSchema"), dict) and schema.get("required"):
        yield "it has no poll and requires arguments; the hub streams an event type once, for all of its clients"
    for member in ("inputSchema", "payloadSchema"):
        schema = entry.get(member, {})
        if not isinstance(schema, dict):
            yield f"its {member} is not an object"
            continue
        try:
            validator(schema)
        except (ConfigError, TypeError) as problem:
            yield f"its {member} is not a JSON Schema: {problem}"


def bridged(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event type as the hub offers it: with every delivery mode, and with both schemas.

    The hub itself filters an event type that is only streamed, by the simple fields of its payload.
    """
    whole = {"inputSchema": {"type": "object"}, "payloadSchema": {"type": "object"}, **wire}
    filters = {"inputSchema": filter_schema(whole["payloadSchema"])} if is_pushed(wire) else {}
    return {**whole, **filters, "delivery": list(DELIVERY)}


def is_pushed(wire: Mapping[str, Any]) -> bool:
    """Whether an event type of a mounted server is streamed and cannot be polled."""
    modes = wire.get("delivery")
    return isinstance(modes, list) and "poll" not in modes
