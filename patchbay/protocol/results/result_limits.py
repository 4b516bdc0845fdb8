"""Stores output beyond the limit for its caller, and links to it in the result.

The result keeps the beginning of a text, and a link in place of bytes that the hub embedded itself (`cid://`).
Structured content with an `outputSchema` stays whole. If the store fails, for example on a full disk, the result keeps
the whole output.
"""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from patchbay.descriptors import Descriptor
from patchbay.errors import ContentError
from patchbay.events import Content, Data, Event, Text
from patchbay.jsonrpc import dump_json
from patchbay.views.fold import format_value as shown_value

Keep = Callable[[bytes], str | None]
"""Stores a large result for its caller; returns its URI, or None if it is too large to store."""

log = logging.getLogger(__name__)

NOT_KEPT = "too large to be kept (setting result_size)"

HEAD = 4096
"""Characters at the beginning of a large text that stay in the result, if the limit is not smaller."""


def limited(result: dict[str, Any], keep: Keep, limit: int, descriptor: Descriptor) -> dict[str, Any]:
    """Limit every text of a tool result, and structured content without an `outputSchema`, to `limit` bytes."""
    promised = "outputSchema" in descriptor.wire
    structure = None if promised else _large_structure(result, limit)
    # A character takes at most four bytes in UTF-8, so most results need no encoding here.
    if structure is None and not any(_may_be_large(item, limit) for item in result["content"]):
        return result
    content: list[dict[str, Any]] = []
    cut = False
    for item in result["content"]:
        if item["type"] == "resource" and _may_be_large(item, limit):
            content += _link_to_bytes(item, keep, descriptor)
            continue
        data = item["text"].encode("utf-8", "surrogatepass") if item["type"] == "text" else b""
        if len(data) <= limit:
            content.append(item)
        else:
            cut = True
            content += _by_reference(item["text"], data, keep, descriptor, limit)
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
    """Return an event unchanged; for one with a text beyond the limit, return its beginning and a link."""
    text = _text_of(event)
    if isinstance(event, Content) and event.block.get("type") == "resource" and _may_be_large(event.block, limit):
        return tuple(Content(block) for block in _link_to_bytes(dict(event.block), keep, descriptor))
    promised = isinstance(event, Data) and not event.text and "outputSchema" in descriptor.wire
    # A character takes at most four bytes in UTF-8, so most texts need no encoding here.
    if text is None or len(text) * 4 <= limit or promised:
        return (event,)
    whole = {"content": [{"type": "text", "text": text}]}
    cut = limited(whole, keep, limit, descriptor)
    return (event,) if cut["content"] == whole["content"] else tuple(Content(block) for block in cut["content"])


def _may_be_large(item: Mapping[str, Any], limit: int) -> bool:
    if item["type"] != "resource":
        return len(item.get("text", "")) * 4 > limit
    found = item["resource"]
    return str(found.get("uri", "")).startswith("cid://") and len(found.get("blob", "")) * 3 // 4 > limit


def _link_to_bytes(item: dict[str, Any], keep: Keep, descriptor: Descriptor) -> list[dict[str, Any]]:
    """Return a link to the bytes of an embedded resource; the resource itself when they cannot be stored."""
    found = item["resource"]
    try:
        return linked(keep, b64decode(found["blob"]), f"{descriptor.name} output", str(found.get("mimeType", "")))
    except ContentError as problem:
        _tell_not_kept(descriptor, problem)
        return [item]


def _text_of(event: Event) -> str | None:
    """Return the text of an event in a result, or None."""
    if isinstance(event, Text):
        return event.text
    if isinstance(event, Data):
        return shown_value(event.value) if event.text is None else event.text
    block = event.block if isinstance(event, Content) else {}
    return str(block["text"]) if block.get("type") == "text" else None


def _tell_not_kept(descriptor: Descriptor, problem: ContentError) -> None:
    log.warning("a large result of %s is not kept, and is given whole: %s", descriptor.name, problem)


def linked(keep: Keep, data: bytes, name: str, kind: str) -> list[dict[str, Any]]:
    """Return a link to stored content, or a text with the reason why it is not stored. Raises ContentError."""
    uri = keep(data)
    if uri is None:
        return [{"type": "text", "text": f"[{name}: {len(data)} bytes, {NOT_KEPT}]"}]
    return [{"type": "resource_link", "uri": uri, "name": name, "mimeType": kind, "size": len(data)}]


def json_of(value: Any) -> bytes:
    """Return a value as compact JSON."""
    return dump_json(value)


def _large_structure(result: dict[str, Any], limit: int) -> bytes | None:
    """Return structured content above the limit as JSON, or None."""
    if result.get("structuredContent") is None:
        return None
    data = json_of(result["structuredContent"])
    return data if len(data) > limit else None


def _by_reference(text: str, data: bytes, keep: Keep, descriptor: Descriptor, limit: int) -> list[dict[str, Any]]:
    try:
        [block] = linked(keep, data, f"{descriptor.name} output", "text/plain")
    except ContentError as problem:
        _tell_not_kept(descriptor, problem)
        return [{"type": "text", "text": text}]
    where = f"the whole text is at {block['uri']}" if "uri" in block else f"the whole text is {NOT_KEPT}"
    head = {"type": "text", "text": text[: min(HEAD, limit)] + f"\n[... {len(data)} bytes in all; {where}]"}
    return [head, block] if "uri" in block else [head]
