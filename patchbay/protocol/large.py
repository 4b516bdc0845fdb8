"""Large output by reference: a text beyond the limit is kept for its caller; the result gets its head and a link.

Source: REQUIREMENTS X-14, T13.2; DESIGN section 6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from patchbay.descriptors import Descriptor

Keep = Callable[[bytes], str | None]
"""Keeps a text for the caller; answers the URI that opens it, None where it is too large to be kept."""

HEAD = 4096
"""Characters of a large text that stay in the result."""


def limited(result: dict[str, Any], keep: Keep, limit: int, descriptor: Descriptor) -> dict[str, Any]:
    """A tool result in which no text is longer than `limit` bytes."""
    # A character takes at most four bytes in UTF-8: most results are passed without encoding them.
    if not any(len(item.get("text", "")) * 4 > limit for item in result["content"]):
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
    if cut and "outputSchema" not in descriptor.wire:
        shown.pop("structuredContent", None)
    return shown


def _by_reference(text: str, data: bytes, keep: Keep, descriptor: Descriptor) -> list[dict[str, Any]]:
    uri = keep(data)
    if uri is None:
        tail = f"\n[... {len(data)} bytes in all; the rest is too large to be kept (setting result_size)]"
        return [{"type": "text", "text": text[:HEAD] + tail}]
    head = text[:HEAD] + f"\n[... {len(data)} bytes in all; the whole text is at {uri}]"
    link = {
        "type": "resource_link",
        "uri": uri,
        "name": f"{descriptor.name} output",
        "mimeType": "text/plain",
        "size": len(data),
    }
    return [{"type": "text", "text": head}, link]
