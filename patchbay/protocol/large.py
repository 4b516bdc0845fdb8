"""Large output by reference: a text beyond the limit is kept under its CID; the result gets its head and a link.

A store that fails, such as on a full disk, keeps no text: the result has all of it then.
Source: REQUIREMENTS X-14, T13.2; DESIGN section 6.
"""

from __future__ import annotations

import logging
from typing import Any

from patchbay.descriptors import Descriptor
from patchbay.errors import ContentError
from patchbay.store import Blobs

log = logging.getLogger(__name__)

HEAD = 4096
"""Characters of a large text that stay in the result."""


def limited(result: dict[str, Any], blobs: Blobs, limit: int, descriptor: Descriptor) -> dict[str, Any]:
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
            content += _by_reference(item["text"], data, blobs, descriptor)
    shown = {**result, "content": content}
    if cut and "outputSchema" not in descriptor.wire:
        shown.pop("structuredContent", None)
    return shown


def _by_reference(text: str, data: bytes, blobs: Blobs, descriptor: Descriptor) -> list[dict[str, Any]]:
    try:
        cid = blobs.put(data)
    except ContentError as problem:
        log.warning("a large result of %s is not kept, and is given whole: %s", descriptor.name, problem.message)
        return [{"type": "text", "text": text}]
    head = text[:HEAD] + f"\n[... {len(data)} bytes in all; the whole text is at cid://{cid}]"
    link = {
        "type": "resource_link",
        "uri": f"cid://{cid}",
        "name": f"{descriptor.name} output",
        "mimeType": "text/plain",
        "size": len(data),
    }
    return [{"type": "text", "text": head}, link]
