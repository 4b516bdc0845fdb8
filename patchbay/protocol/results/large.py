"""Large output by reference: what is beyond the limit is kept for its caller; the result gets a link to it.

Of a text the result keeps the head. Structured content that a tool promised (`outputSchema`) stays whole.
A store that fails, such as on a full disk, keeps nothing: the result has all of it then.
Source: REQUIREMENTS X-14, T13.2; DESIGN section 6.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import orjson

from patchbay.descriptors import Descriptor
from patchbay.errors import ContentError
from patchbay.events import Content, Data, Event, Text
from patchbay.views.fold import format_value as shown_value

Keep = Callable[[bytes], str | None]
"""Keeps a large result for its caller; answers the URI that opens it, None for one that is too large to be kept."""

log = logging.getLogger(__name__)

NOT_KEPT = "too large to be kept (setting result_size)"

HEAD = 4096
"""Characters of a large text that stay in the result."""


def limited(result: dict[str, Any], keep: Keep, limit: int, descriptor: Descriptor) -> dict[str, Any]:
    """A tool result in which no text, and no structured content that was not promised, is longer than `limit` bytes."""
    promised = "outputSchema" in descriptor.wire
    structure = None if promised else _large_structure(result, limit)
    # A character takes at most four bytes in UTF-8: most results are passed without encoding them.
    if structure is None and not any(len(item.get("text", "")) * 4 > limit for item in result["content"]):
        return result
    content: list[dict[str, Any]] = []
    cut = False
    for item in result["content"]:
        data = item["text"].encode("utf-8", "surrogatepass") if item["type"] == "text" else b""
        if len(data) <= limit:
            content.append(item)
        else:
            cut = True
            content += _by_reference(item["text"], data, keep, descriptor)
    shown = {**result, "content": content}
    if (cut or structure is not None) and not promised:
        shown.pop("structuredContent", None)
    if structure is not None and not cut:
        try:
            content += linked(keep, structure, f"{descriptor.name} structured output", "application/json")
        except ContentError as problem:
            _tell_not_kept(descriptor, problem)
            return result
    return shown


def limited_event(event: Event, keep: Keep, limit: int, descriptor: Descriptor) -> tuple[Event, ...]:
    """An event, or what stands for one with a text beyond the limit: its head and a link."""
    text = _text_of(event)
    promised = isinstance(event, Data) and not event.text and "outputSchema" in descriptor.wire
    # A character takes at most four bytes in UTF-8: most texts are passed without encoding them.
    if text is None or len(text) * 4 <= limit or promised:
        return (event,)
    whole = {"content": [{"type": "text", "text": text}]}
    cut = limited(whole, keep, limit, descriptor)
    return (event,) if cut["content"] == whole["content"] else tuple(Content(block) for block in cut["content"])


def _text_of(event: Event) -> str | None:
    """The text that an event is in a result, or None."""
    if isinstance(event, Text):
        return event.text
    if isinstance(event, Data):
        return shown_value(event.value) if event.text is None else event.text
    block = event.block if isinstance(event, Content) else {}
    return str(block["text"]) if block.get("type") == "text" else None


def _tell_not_kept(descriptor: Descriptor, problem: ContentError) -> None:
    log.warning("a large result of %s is not kept, and is given whole: %s", descriptor.name, problem.message)


def linked(keep: Keep, data: bytes, name: str, kind: str) -> list[dict[str, Any]]:
    """A block that says where content is kept, or one that says why it is not. Raises ContentError of the store."""
    uri = keep(data)
    if uri is None:
        return [{"type": "text", "text": f"[{name}: {len(data)} bytes, {NOT_KEPT}]"}]
    return [{"type": "resource_link", "uri": uri, "name": name, "mimeType": kind, "size": len(data)}]


def json_of(value: Any) -> bytes:
    """A value as compact JSON."""
    try:
        return orjson.dumps(value)
    except TypeError:  # integers beyond 64 bits, which orjson does not write
        return json.dumps(value).encode()


def _large_structure(result: dict[str, Any], limit: int) -> bytes | None:
    """Structured content above the limit as JSON; None where it is smaller, or is not there."""
    if result.get("structuredContent") is None:
        return None
    data = json_of(result["structuredContent"])
    return data if len(data) > limit else None


def _by_reference(text: str, data: bytes, keep: Keep, descriptor: Descriptor) -> list[dict[str, Any]]:
    try:
        [block] = linked(keep, data, f"{descriptor.name} output", "text/plain")
    except ContentError as problem:
        _tell_not_kept(descriptor, problem)
        return [{"type": "text", "text": text}]
    where = f"the whole text is at {block['uri']}" if "uri" in block else f"the whole text is {NOT_KEPT}"
    head = {"type": "text", "text": text[:HEAD] + f"\n[... {len(data)} bytes in all; {where}]"}
    return [head, block] if "uri" in block else [head]
