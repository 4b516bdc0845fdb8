"""Skills that a server lists (SEP-2640): no file is read before it is needed, and none is used before it is verified.

A file that differs from its entry is refused: its size, its SHA-256, and for a SKILL.md every field of its frontmatter.

Source: SEP-2640, integrity and verification.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from patchbay.client.connection.connection import Connection
from patchbay.client.connection.requests import Json
from patchbay.client.errors import McpFailure

FRONTMATTER_FENCE = "---"
INTERNAL_ERROR = -32603


def list_skills(connection: Connection) -> list[Json]:
    """List the entries of all skills, without reading their files."""
    return list(connection.iterate_pages("skills/list", "skills"))


def load_skill(connection: Connection, entry: Mapping[str, Any]) -> str:
    """Load the text of a skill's SKILL.md. Raises McpFailure when it differs from its entry."""
    uri = str(entry.get("uri"))
    text = _decode_text(uri, read_skill_file(connection, entry, uri))
    found, wanted = _parse_frontmatter(uri, text), entry.get("frontmatter")
    if found != wanted:
        names = sorted(key for key in {*found, *(wanted or {})} if found.get(key) != (wanted or {}).get(key))
        raise McpFailure(
            INTERNAL_ERROR, f"{uri} was refused: its frontmatter differs from its entry in {', '.join(names)}"
        )
    return text


def read_skill_file(connection: Connection, entry: Mapping[str, Any], uri: str) -> bytes:
    """Read one file of a skill. Raises McpFailure when its size or digest differs from its entry."""
    known = next((one for one in entry.get("resources") or () if one.get("uri") == uri), None)
    if known is None:
        raise McpFailure(INTERNAL_ERROR, f"{uri} was refused: the skill's entry does not list it")
    data = b"".join(_decode_contents(connection.read_resource(uri)))
    if len(data) != known.get("size"):
        raise McpFailure(
            INTERNAL_ERROR, f"{uri} was refused: it has {len(data)} bytes, its entry says {known.get('size')}"
        )
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if digest != known.get("digest"):
        raise McpFailure(
            INTERNAL_ERROR, f"{uri} was refused: its digest is {digest}, its entry says {known.get('digest')}"
        )
    return data


def _decode_contents(result: Json) -> Iterator[bytes]:
    for content in result.get("contents") or ():
        try:
            yield (
                str(content["text"]).encode() if "text" in content else base64.b64decode(content["blob"], validate=True)
            )
        except (KeyError, binascii.Error) as problem:
            raise McpFailure(INTERNAL_ERROR, "a resource content has neither a text nor a base64 blob") from problem


def _decode_text(uri: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise McpFailure(INTERNAL_ERROR, f"{uri} was refused: it is not UTF-8") from problem


def _parse_frontmatter(uri: str, text: str) -> dict[str, Any]:
    lines = text.splitlines()
    if FRONTMATTER_FENCE not in lines[1:] or lines[0] != FRONTMATTER_FENCE:
        raise McpFailure(INTERNAL_ERROR, f"{uri} was refused: it has no frontmatter")
    try:
        found = yaml.safe_load("\n".join(lines[1 : lines.index(FRONTMATTER_FENCE, 1)]))
    except yaml.YAMLError as problem:
        raise McpFailure(INTERNAL_ERROR, f"{uri} was refused: its frontmatter is not YAML") from problem
    return found if isinstance(found, dict) else {}
