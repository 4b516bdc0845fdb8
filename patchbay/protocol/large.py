"""Large output by reference: what is beyond the limit is kept under its CID; the result gets a link to it.

Of a text the result keeps the head. Structured content that a tool promised (`outputSchema`) stays whole.
A store that fails, such as on a full disk, keeps nothing: the result has all of it then.
Source: REQUIREMENTS X-14, T13.2; DESIGN section 6.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import orjson

from patchbay.descriptors import Descriptor
from patchbay.errors import ContentError
from patchbay.store import Blobs

log = logging.getLogger(__name__)

HEAD = 4096
"""Characters of a large text that stay in the result."""


def limited(result: dict[str, Any], blobs: Blobs, limit: int, descriptor: Descriptor) -> dict[str, Any]:
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
            content += _by_reference(item["text"], data, blobs, descriptor)
    shown = {**result, "content": content}
    if (cut or structure is not None) and not promised:
        shown.pop("structuredContent", None)
    if structure is not None and not cut:
        cid = _keep(structure, blobs, descriptor)
        if cid is None:
            return result
        content.append(link(cid, f"{descriptor.name} structured output", "application/json", len(structure)))
    return shown


def _keep(data: bytes, blobs: Blobs, descriptor: Descriptor) -> str | None:
    """The CID of content that is kept; None where the store fails."""
    try:
        return blobs.put(data)
    except ContentError as problem:
        log.warning("a large result of %s is not kept, and is given whole: %s", descriptor.name, problem.message)
        return None


def link(cid: str, name: str, kind: str, size: int) -> dict[str, Any]:
    """A block that says where content is kept."""
    return {"type": "resource_link", "uri": f"cid://{cid}", "name": name, "mimeType": kind, "size": size}


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


def _by_reference(text: str, data: bytes, blobs: Blobs, descriptor: Descriptor) -> list[dict[str, Any]]:
    cid = _keep(data, blobs, descriptor)
    if cid is None:
        return [{"type": "text", "text": text}]
    head = text[:HEAD] + f"\n[... {len(data)} bytes in all; the whole text is at cid://{cid}]"
    return [{"type": "text", "text": head}, link(cid, f"{descriptor.name} output", "text/plain", len(data))]
