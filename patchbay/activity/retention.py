"""Decides which parts of a call's arguments and result a record stores.

Three modes (setting `activity_contents`): `keep` stores the JSON, so that the operator can repeat a call; `digest`
stores only its CID, which shows whether two calls were equal; `none` stores nothing. `auto` means `keep` in personal
mode (setting `access`), where one person calls and reads, else `digest`. A server's configuration can only reduce the
mode (`activity`). For a tool whose input schema has a property with `writeOnly` or the format `password`, arguments and
results are secret: the record has not even their CID, because a short secret can be guessed from it.
Source: JSON Schema 2020-12, Validation 9.4 (writeOnly).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from patchbay.catalogue.servers.server import Server, ServerCache
from patchbay.descriptors import ACTIVITY, ACTIVITY_MODES, Descriptor
from patchbay.jsonrpc import dump_json
from patchbay.settings import Settings

KEPT = 16 * 1024
"""Limit in bytes on recorded arguments, and on a recorded result."""

STAMPS = ("resultType", "_meta", "ttlMs", "cacheScope")
"""Members that the protocol adds to a tool's result."""

_MODES_OF_DESCRIPTORS: ServerCache[tuple[str, str], str] = ServerCache()
"""Modes by the kind and name of a descriptor; both are empty for the server itself."""


def contents_mode(settings: Settings) -> str:
    """Return `keep`, `digest` or `none` for a whole hub."""
    if settings.activity_contents != "auto":
        return settings.activity_contents
    return "keep" if settings.mode == "personal" else "digest"


def mode_of(server: Server, descriptor: Descriptor | None, mode: str) -> str:
    """Return the mode for one descriptor of a server, where `mode` is the mode of the hub."""

    def compute() -> str:
        if descriptor is not None and descriptor.has_secret_arguments:
            return "none"
        # A tool of a toolset has the mode of its origin in its target.
        behind = mode if descriptor is None else str(descriptor.target.get(ACTIVITY, mode))
        return min(mode, str(server.config.get(ACTIVITY, mode)), behind, key=ACTIVITY_MODES.index)

    key = (descriptor.kind if descriptor else "", descriptor.name if descriptor else "")
    return _MODES_OF_DESCRIPTORS.get(server, key, compute)


def encode_content(value: Mapping[str, Any]) -> bytes | None:
    """Return a JSON object in canonical form; None if it is too large or has no JSON form."""
    if "resultType" in value:
        value = {key: each for key, each in value.items() if key not in STAMPS}
    for each in value.values():
        if type(each) is str and len(each) > KEPT:
            return None
    try:
        data = dump_json(value, is_sorted=True)
    except (TypeError, ValueError):  # half a surrogate pair, or an integer of thousands of digits
        return None
    return data if len(data) <= KEPT else None


def whole_digest(value: Mapping[str, Any]) -> bytes:
    """Return the SHA-256 digest of a JSON object of any size, in the form of `encode_content`."""
    if "resultType" in value:
        value = {key: each for key, each in value.items() if key not in STAMPS}
    try:
        data = dump_json(value, is_sorted=True)
    except (TypeError, ValueError):  # as in `packed`
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)
        data = text.encode("utf-8", "replace")
    return sha256(data).digest()


def estimate_sent(arguments: Mapping[str, Any]) -> int:
    """Return the approximate size of arguments: the characters of their texts, and other values as JSON."""
    total = 0
    for name, value in arguments.items():
        total += len(name) + (len(value) if type(value) is str else len(json.dumps(value, default=str)))
    return total


def estimate_size(answer: Mapping[str, Any]) -> int:
    """Return the approximate size of an answer: the characters of its texts and base64, without encoding it."""
    total = 0
    for part in answer.get("content") or answer.get("contents") or ():
        total += _characters(part)
    return total


def _characters(part: Any) -> int:
    if type(part) is not dict:
        return 0
    text = part.get("text") or part.get("data") or part.get("blob")
    own = len(text) if type(text) is str else 0
    return own + _characters(part["resource"]) if "resource" in part else own
