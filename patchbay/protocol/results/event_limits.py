"""Fits messages into one event of a stream: large parts become references, which only their caller can read.

The official Python client ends a connection with an event above 1 MiB. A tool's result keeps its small blocks; large
blocks become links. Structured content with an `outputSchema` cannot be left out of a successful result, so a result
with too much of it becomes an error with a link; without an `outputSchema` it is left out. Every other large answer
becomes an error with the address of the whole answer. Progress and log messages keep the beginning of their text.
Source: MCP specification 2026-07-28, server/tools.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from patchbay.errors import PatchbayError
from patchbay.jsonrpc import Failure, Message, Notification, Rendered, Request, Result, Sign, encode, failure
from patchbay.protocol.results.result_limits import HEAD, NOT_KEPT, Keep, json_of, linked
from patchbay.views.sse import MAX_EVENT_BYTES

MAX_BLOCK_BYTES = 16 * 1024
"""Limit on the blocks that stay in a result that is too large."""


class TooLarge(PatchbayError):
    """An answer that is too large for an event of a stream."""


def fitted(message: Message, keep: Keep) -> bytes:
    """Return a message as JSON that fits into one event of a stream."""
    data = encode(message)
    if len(data) <= MAX_EVENT_BYTES:
        return data
    if isinstance(message, Notification):
        return encode(Notification(message.method, _cut(message.params)))
    if isinstance(message, Result) and isinstance(message.result, dict) and "content" in message.result:
        return encode(Result(message.id, _tool_result(message.result, len(data), keep, message.promised)))
    if isinstance(message, Result):
        return encode(_refused(message, keep))
    if isinstance(message, Failure):
        return encode(Failure(message.id, _cut({**message.error, "data": None}), message.status))
    return data


def is_too_large(message: Message | Sign | None) -> bool:
    """Whether a message is a result that is too large for an event."""
    return isinstance(message, Result) and len(encode(message)) > MAX_EVENT_BYTES


def is_question_too_large(question: Request) -> bool:
    """Whether a question to the client is too large for an event."""
    return len(encode(question)) > MAX_EVENT_BYTES


def _tool_result(result: dict[str, Any], size: int, keep: Keep, promised: bool) -> dict[str, Any]:
    shown = dict(result)
    content = [part for block in result["content"] for part in _block(block, keep)]
    if "structuredContent" in shown and len(json_of(shown["structuredContent"])) > MAX_BLOCK_BYTES:
        value = json_of(shown.pop("structuredContent"))
        sentence = (
            f"The structured result has {len(value)} bytes, and this stream carries at most {MAX_EVENT_BYTES} at once."
            " The call worked; read the whole result at the address below, or ask for less."
        )
        kept = linked(keep, value, "structured result", "application/json")
        content = [{"type": "text", "text": sentence}, *kept, *content]
        if promised:
            shown["isError"] = True
    if len(json_of(content)) > MAX_EVENT_BYTES // 2:
        whole = json_of(result["content"])
        sentence = f"The result has {size} bytes in {len(content)} parts; read the whole of it at the address below."
        content = [{"type": "text", "text": sentence}, *linked(keep, whole, "result", "application/json")]
    return {**shown, "content": content}


def _block(block: dict[str, Any], keep: Keep) -> list[dict[str, Any]]:
    """Return a small block unchanged; for a large block return a link and, for a text, its beginning."""
    if len(json_of(block)) <= MAX_BLOCK_BYTES:
        return [block]
    resource = block.get("resource", {})
    text = block.get("text", resource.get("text"))
    kind = block.get("mimeType", resource.get("mimeType"))
    if isinstance(text, str):
        data = text.encode("utf-8", "surrogatepass")
        head = text[:HEAD] + f"\n[... {len(data)} bytes in all]" if "text" in block else None
        shown = [{"type": "text", "text": head}] if head else []
        return [*shown, *linked(keep, data, resource.get("uri", "text"), kind or "text/plain")]
    try:
        data = base64.b64decode(block.get("data", resource.get("blob", "")), validate=True)
    except (binascii.Error, TypeError, ValueError):
        data = b""
    if not data:
        data, kind = json_of(block), "application/json"
    name = resource.get("uri", block["type"])
    return linked(keep, data, name, kind or "application/octet-stream")


def _refused(message: Result, keep: Keep) -> Failure:
    data = message.result.data if isinstance(message.result, Rendered) else json_of(dict(message.result))
    uri = keep(data)
    where = f"the whole answer is at {uri}" if uri is not None else f"it is {NOT_KEPT}"
    sentence = f"the answer has {len(data)} bytes, and this stream carries at most {MAX_EVENT_BYTES} at once; {where}"
    return failure(message.id, TooLarge(sentence, {"uri": uri, "bytes": len(data)}))


def _cut(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params with only the beginning of each long value."""
    shown = {}
    for name, value in params.items():
        text = value if isinstance(value, str) else json_of(value).decode()
        shown[name] = value if len(text) <= HEAD else f"{text[:HEAD]}\n[... {len(text)} characters in all]"
    return shown
