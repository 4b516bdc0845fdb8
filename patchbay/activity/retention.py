"""What of a call's arguments and result may be remembered, and how much of it is looked at.

Three modes (setting `activity_contents`): `keep` the JSON itself, so that a call can be made again; `digest` only its
CID, which tells whether two calls were alike; `none`. `auto` keeps in personal mode (setting `access`), where who calls
and who reads are one person, and digests elsewhere. A server's configuration can ask for less (`activity`), never for
more. A tool whose input schema marks a property `writeOnly` or as a `password` says that its arguments are
secret: neither they nor its results leave a trace, not even a CID, which can be guessed for a short secret.
Sources: DESIGN section 11; THREATS 1.7; JSON Schema 2020-12, Validation 9.4 (writeOnly).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from patchbay.catalogue.servers import Server, ServerCache
from patchbay.descriptors import Descriptor
from patchbay.settings import Settings

KEPT = 16 * 1024
"""Bytes of arguments, and of a result, up to which they are looked at."""

MODES = ("none", "digest", "keep")
"""From the least to the most."""

STAMPS = ("resultType", "_meta", "ttlMs", "cacheScope")
"""What the protocol adds to a result: not a part of what a tool gave."""

MAX_SCHEMA_DEPTH = 32
"""How deep a schema is searched for secrets; one that is deeper counts as secret."""

_MODES_OF_DESCRIPTORS: ServerCache[tuple[str, str], str] = ServerCache()
"""Modes by the kind and name of a descriptor; both are empty for the server itself."""


def contents_mode(settings: Settings) -> str:
    """`keep`, `digest` or `none` for a whole hub."""
    if settings.activity_contents != "auto":
        return settings.activity_contents
    return "keep" if settings.access == "personal" else "digest"


def mode_of(server: Server, descriptor: Descriptor | None, mode: str) -> str:
    """The same for one descriptor of a server, where the hub's is `mode`."""

    def compute() -> str:
        if descriptor is not None and secret(descriptor):
            return "none"
        return min(mode, str(server.config.get("activity", mode)), key=MODES.index)

    key = (descriptor.kind if descriptor else "", descriptor.name if descriptor else "")
    return _MODES_OF_DESCRIPTORS.get(server, key, compute)


def secret(descriptor: Descriptor) -> bool:
    """Whether a tool says that something in its arguments is secret."""
    return descriptor.kind == "tool" and _marked(descriptor.wire.get("inputSchema"), MAX_SCHEMA_DEPTH)


def _marked(schema: Any, depth: int) -> bool:
    if depth == 0:
        return True
    if isinstance(schema, Mapping):
        if schema.get("writeOnly") is True or schema.get("format") == "password":
            return True
        return any(_marked(each, depth - 1) for each in schema.values())
    return isinstance(schema, list) and any(_marked(each, depth - 1) for each in schema)


def packed(value: Mapping[str, Any]) -> bytes | None:
    """A JSON object in canonical form; None for one that is too large, or that JSON cannot say."""
    if "resultType" in value:
        value = {key: each for key, each in value.items() if key not in STAMPS}
    for each in value.values():
        if type(each) is str and len(each) > KEPT:
            return None
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # integers beyond 64 bits, or half a surrogate pair
        return None
    return data if len(data) <= KEPT else None


def estimate_size(answer: Mapping[str, Any]) -> int:
    """About how large an answer is: the characters of its texts and base64, without encoding anything."""
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
