"""The event types of a mounted server: what they have to be, and what the hub offers of them.

Source: SEP-3415, Listing Available Events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from patchbay.arguments import validator
from patchbay.errors import ConfigError
from patchbay.occurrences.event_types import DELIVERY


def find_faults(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield why an event type of a mounted server cannot be served."""
    modes = entry.get("delivery")
    if not isinstance(modes, list) or "poll" not in modes:
        yield f"its delivery is {modes!r:.80}; the hub needs poll, and gives its clients the other modes itself"
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
    """Return an event type as the hub offers it: with every delivery mode, and with both schemas."""
    return {"inputSchema": {"type": "object"}, "payloadSchema": {"type": "object"}, **wire, "delivery": list(DELIVERY)}
