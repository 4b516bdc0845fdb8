"""Checks results of strangers: bytes at the URI of a CID have to be the content of this CID.

A CID is a promise about bytes. A mounted server, and a member of a room, could give other bytes under it.
Sources: MCP specification, schema (ResourceContents, EmbeddedResource, CallToolResult, GetPromptResult); SEP-2663 for
the results of tasks.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from patchbay.cid import is_cid, verify
from patchbay.errors import ContentError, ServerFailed

_IGNORED = re.compile(r"[\x00-\x20\s]+")
"""Characters that readers of URIs leave out, such as spaces at the ends."""


def check_result(result: Mapping[str, Any], giver: str) -> None:
    """Check the result of a call, a read, a prompt or a task; `giver` begins the message of the error.

    Raises ToolFailed. Parts that break the schema are left to those who read them.
    """
    _check_members(result, giver)
    inner = result.get("result")
    if isinstance(inner, dict):
        _check_members(inner, giver)


def _check_members(result: Mapping[str, Any], giver: str) -> None:
    # Most results have text alone: this is on the way of each call of a mounted server.
    _check_blocks(result.get("content"), giver)
    if "contents" in result:
        for content in _list_entries(result["contents"]):
            if isinstance(content, dict):
                _check_content(content, giver)
    if "messages" in result:
        for message in _list_entries(result["messages"]):
            if isinstance(message, dict):
                _check_blocks(message.get("content"), giver)


def _check_blocks(blocks: Any, giver: str) -> None:
    for block in _list_entries(blocks):
        if isinstance(block, dict) and block.get("type") == "resource" and isinstance(block.get("resource"), dict):
            _check_content(block["resource"], giver)


def _list_entries(found: Any) -> Sequence[Any]:
    """Return the entries of a list, or the only entry."""
    return found if isinstance(found, list) else (found,)


def _check_content(content: dict[str, Any], giver: str) -> None:
    """Check one resource. A `cid:` URI that names no CID of this kind promises nothing (RFC 2392)."""
    uri = content.get("uri")
    if not isinstance(uri, str):
        return
    uri = _IGNORED.sub("", uri)
    if uri[:4].lower() != "cid:":
        return
    cid = _find_cid(unquote(uri[4:]))
    if not is_cid(cid):
        return
    text, blob = content.get("text"), content.get("blob")
    if text is not None and blob is not None:  # a reader may take either
        raise ServerFailed(f"{giver} gave both text and blob for {cid}; expected one of them")
    try:
        verify(cid, text.encode() if isinstance(text, str) else _decode(blob))
    except (ContentError, ValueError) as problem:  # also raised for text without UTF-8 form, and for broken base64
        raise ServerFailed(f"{giver} gave bytes that are not the content of {cid}") from problem


def _find_cid(rest: str) -> str:
    """Return what a URI names as its CID behind `cid:`, also where readers take it for a host: `//user@CID:80/path`."""
    return re.split(r"[/?#]", rest.lstrip("/"), maxsplit=1)[0].rpartition("@")[2].partition(":")[0]


def _decode(blob: object) -> bytes:
    """Return bytes of base64. Raises ValueError for text that decoders read in different ways; lines are allowed."""
    return b64decode("".join(blob.split()), validate=True) if isinstance(blob, str) else b""
