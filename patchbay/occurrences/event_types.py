"""Event types as descriptors: the JSON object that `events/list` shows. Source: SEP-3415, Listing Available Events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.descriptors import Descriptor, Source
from patchbay.occurrences.arguments import filter_schema

DELIVERY = ("poll", "push", "webhook")
"""The delivery modes of every event type of the hub."""

CHANGE_SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "description": "What changed, such as variables or servers."},
        "name": {"type": "string"},
        "removed": {"type": "boolean"},
        "by": {"type": "string", "description": "Who made the change."},
        "reason": {"type": "string"},
        "cid": {"type": "string", "description": "The content after the change; absent if the name was removed."},
    },
    "required": ["kind", "name", "removed", "by", "reason"],
}
"""The payload of a change of a variable or a server."""

DOCUMENT_SCHEMA = {
    "type": "object",
    "properties": {
        "how": {"enum": ["added", "changed", "removed"]},
        "path": {"type": "string", "description": "The path of the document in its folder."},
        "uri": {"type": "string", "description": "The resource that is the document."},
        "title": {"type": "string"},
        "cid": {"type": "string", "description": "The content after the change; absent if the document was removed."},
    },
    "required": ["how", "path", "uri"],
}
"""The payload of a change of a document in a folder."""

MESSAGE_SCHEMA = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "description": "The type of the entry, such as chat.msg or tool.call."},
        "from": {"type": "string", "description": "The member or session that sent it; hub for the hub itself."},
        "seq": {"type": "integer", "description": "Its place in the log of the room."},
        "payload": {"type": "object", "description": "Its contents; absent above 200 KiB."},
    },
    "required": ["type", "from", "seq"],
}
"""The payload of an entry of a room."""


def event_type(
    name: str, description: str, payload: Mapping[str, Any], target: Mapping[str, Any], source: Source
) -> Descriptor:
    """Return an event type with this payload, whose simple fields are its arguments."""
    wire: dict[str, Any] = {"name": name, **({"description": description} if description else {})}
    wire |= {"delivery": list(DELIVERY), "inputSchema": filter_schema(payload), "payloadSchema": dict(payload)}
    return Descriptor("event", name, wire, target, source)
