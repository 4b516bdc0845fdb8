"""The native view: every event of an activation becomes a typed item of the Plexus protocol.

An item is a flat JSON object: `plexus_hash`, `type`, `provenance`, and the members of its type. The last item is
exactly one `done`; an `error` with `recoverable: false` precedes it when the call failed. In order, the items fold to
the content that `views/fold.py` makes of the same events. This file knows no method and no transport.
Source: docs/native.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from patchbay.errors import ProtocolError
from patchbay.events import Content, Data, Done, Event, Failed, Log, Pause, Progress, Text, ToolUse
from patchbay.jsonrpc import Notification, Rendered, Result
from patchbay.views.fold import format_value

Item = dict[str, Any]

TEXT = "text/plain"
"""Content type of a piece of text; adjacent pieces belong together."""

BLOCK = "mcp.content"
"""Content type of one MCP content block: an image, a link, a separate text."""

JSON = "application/json"
"""Content type of a value without one of its own."""

Kind = Literal["activation_not_found", "method_not_found", "invalid_params"]


@dataclass(frozen=True, slots=True)
class Stamp:
    """The members of every item of a subscription: the hash of all methods, and the provenance, outermost first."""

    hash: str
    segments: tuple[str, ...] = ("plexus",)

    def item(self, type: str, **members: Any) -> Item:
        """Return an item of a type, with its members."""
        return {"plexus_hash": self.hash, "type": type, "provenance": {"segments": list(self.segments)}, **members}


def items(event: Event, stamp: Stamp) -> tuple[Item, ...]:
    """Return the items of one event: one for most, two for a failure, none for Pause, Detach and Ask."""
    if isinstance(event, Text):
        return (data(TEXT, event.text, stamp),)
    if isinstance(event, Data):
        own = event.content_type
        text = {} if event.text is None else {"text": event.text}
        # TEXT and BLOCK are reserved for the other two forms, so that a client can read an item back.
        return (data(own if own and own not in (TEXT, BLOCK) else JSON, event.value, stamp) | text,)
    if isinstance(event, Content):
        return (data(BLOCK, dict(event.block), stamp),)
    if isinstance(event, Progress):
        return (_progress(event, stamp),)
    if isinstance(event, Log):
        log = {"level": event.level, "data": event.data} | ({"logger": event.logger} if event.logger else {})
        return (stamp.item("progress", message=format_value(event.data), log=log),)
    if isinstance(event, ToolUse):
        use = {"name": event.name, "input": event.input} | ({"id": event.id} if event.id else {})
        return (stamp.item("progress", message=f"Using tool: {event.name}", tool_use=use),)
    if isinstance(event, Failed):
        return (_error(event, stamp), stamp.item("done"))
    return (stamp.item("done"),) if isinstance(event, Done) else ()


def data(content_type: str, value: Any, stamp: Stamp) -> Item:
    """Return an item with a value and its content type."""
    return stamp.item("data", content_type=content_type, data=value)


def guidance(kind: Kind, hints: Mapping[str, Any], stamp: Stamp) -> Item:
    """Return an item with the reason why a call could not begin and, in `action`, the next step."""
    return stamp.item("guidance", error_kind=kind, **hints)


def notification(method: str, subscription: int, item: Item) -> Notification:
    """Return the message that carries one item; its method is the method of the request."""
    return Notification(method, {"subscription": subscription, "result": item})


def _progress(event: Progress, stamp: Stamp) -> Item:
    members: Item = {"message": event.message or "", "progress": event.progress}
    if event.total is not None:
        members["total"] = event.total
        if event.total > 0:
            members["percentage"] = min(100.0, max(0.0, 100.0 * event.progress / event.total))
    return stamp.item("progress", **members)


def _error(event: Failed, stamp: Stamp) -> Item:
    members: Item = {"error": event.message, "recoverable": False}
    if isinstance(event.error, ProtocolError):
        members["code"] = event.error.code
        if event.error.data is not None:
            members["data"] = event.error.data
    return stamp.item("error", **members)


def collected(messages: Iterable[Result | Notification | Pause]) -> Result:
    """Return a whole stream as one answer: `subscription`, and all its `items` in order."""
    result: Result | None = None
    found: list[Item] = []
    for message in messages:
        if isinstance(message, Result):
            result = message
        elif isinstance(message, Notification):
            found.append(message.params["result"])
    assert result is not None and isinstance(result.result, Rendered)
    return Result(result.id, {"subscription": int(result.result.data), "items": found})
