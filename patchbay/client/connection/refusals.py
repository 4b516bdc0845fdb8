"""What a server says in the body of an HTTP refusal, in a form that the official client passes on.

The official client takes the error of a body that is a JSON-RPC error with an `id`, and drops any other body. Servers
that refuse a request before they read it leave the `id` out, answer other JSON, or plain text.
Source: JSON-RPC 2.0, section 5 (`id` is null when it could not be read); RFC 9110, section 15.5.
"""

from __future__ import annotations

import json
from typing import Any

MAX_TEXT_CHARACTERS = 500
"""Characters of a text in place of an error that are kept."""

MAX_REFUSAL_BYTES = 64 * 1024
"""Bytes of a refusal that are read to find its words."""

UNKNOWN_ERROR = -32603
WORDS = ("message", "error_description", "error", "detail", "title", "reason")
"""Members of JSON documents that have the words of a refusal, the best first."""


def complete_refusal(body: bytes) -> bytes | None:
    """Return the body of a refusal as a JSON-RPC error; None if it is one already, or has no words.

    An error object keeps its code, message and data. Other JSON and plain text become the message of an error with the
    code -32603, with at most MAX_TEXT_CHARACTERS. HTML has no words for a client.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = body.decode("utf-8", "replace").strip()
        if value[:1] in ("<", "{", "["):  # a page, or JSON that is cut off
            return None
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str):
        is_complete = "id" in value and value.get("jsonrpc") == "2.0"
        return None if is_complete else _write(error)
    words = _find_words(value)
    return None if not words else _write({"code": UNKNOWN_ERROR, "message": words[:MAX_TEXT_CHARACTERS]})


def find_refusal_words(body: bytes) -> str:
    """Return the message of a refusal that is a JSON-RPC error, with at most MAX_TEXT_CHARACTERS; "" for other bodies.

    Only a server that speaks MCP refuses in this form.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    error = value.get("error") if isinstance(value, dict) and value.get("jsonrpc") == "2.0" else None
    words = error.get("message") if isinstance(error, dict) else None
    return words.strip()[:MAX_TEXT_CHARACTERS] if isinstance(words, str) else ""


def _write(error: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()


def _find_words(value: Any) -> str:
    """Return the words of a document: itself, or the first member that has some; "" without any."""
    if isinstance(value, str):
        return value.strip()
    if not isinstance(value, dict):
        return ""
    for name in WORDS:
        found = value.get(name)
        words = found if isinstance(found, str) else found.get("message") if isinstance(found, dict) else None
        if isinstance(words, str) and words.strip():
            return words.strip()
    return ""
