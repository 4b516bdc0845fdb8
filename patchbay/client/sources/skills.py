"""Skills that a server lists (SEP-2640): list them, find one, and read its files.

Listing reads no file. A file that differs from its entry is refused: its size, its SHA-256, and for a SKILL.md every
field of its frontmatter.

Source: SEP-2640, integrity and verification.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from patchbay.client.connection.connection import Connection
from patchbay.client.connection.requests import Json
from patchbay.client.errors import McpFailure
from patchbay.suggestions import describe_unknown_name
from patchbay.yaml_core.strict import parse_front_matter

EXTENSION = "io.modelcontextprotocol/skills"
"""The name of the extension in the capabilities of a server."""

SKILL_FILE = "SKILL.md"
"""The file of a skill that a model reads first."""

FORBIDDEN_IN_NAMES = frozenset("/\\\0\r\n")
"""Characters that a decoded step of a file's path must not contain."""

MAX_FILES, MAX_BYTES = 1000, 64 * 1024 * 1024
"""Maximum number of files of one skill that are loaded, and maximum bytes of all of them, by the sizes in its entry."""

INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603


def has_skills(connection: Connection) -> bool:
    """Return whether the server declares the extension."""
    extensions = connection.capabilities.get("extensions")
    return isinstance(extensions, dict) and EXTENSION in extensions


def list_skills(connection: Connection) -> list[Json]:
    """List the entries of all skills, without reading their files; [] from a server without the extension."""
    return list(connection.iterate_pages("skills/list", "skills")) if has_skills(connection) else []


def find_skill(connection: Connection, name: str) -> Json:
    """Find the entry of a skill by its name or by the URI of its SKILL.md. Raises McpFailure when it is not listed."""
    entries = list_skills(connection)
    names = [get_skill_name(entry) for entry in entries]
    for entry, known in zip(entries, names, strict=True):
        if name in (known, entry.get("uri")):
            return entry
    raise McpFailure(INVALID_PARAMS, describe_unknown_name(name, names, "skill"))


def get_skill_name(entry: Mapping[str, Any]) -> str:
    """Return the name of a skill in its frontmatter, "" without one."""
    frontmatter = entry.get("frontmatter")
    return str(frontmatter.get("name", "")) if isinstance(frontmatter, Mapping) else ""


def load_files(connection: Connection, entry: Mapping[str, Any]) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Load and verify every file of a skill; give its path below the folder of the SKILL.md, and its bytes.

    Raises McpFailure for a file that differs from its entry or is not below that folder, and for a skill with too many
    files or bytes.
    """
    uri = str(entry.get("uri"))
    files = entry.get("resources") or []
    size = sum(one["size"] for one in files if isinstance(one.get("size"), int))
    if len(files) > MAX_FILES or size > MAX_BYTES:
        raise McpFailure(
            INTERNAL_ERROR,
            f"{uri} was refused: it has {len(files)} files of {size} bytes; at most {MAX_FILES} files of {MAX_BYTES} "
            "bytes are loaded",
        )
    yield PurePosixPath(SKILL_FILE), load_skill(connection, entry).encode()
    for other in (str(one.get("uri")) for one in files):
        if other != uri:
            yield _get_path(uri, other), read_skill_file(connection, entry, other)


def _get_path(skill_uri: str, uri: str) -> PurePosixPath:
    folder = skill_uri.removesuffix(SKILL_FILE)
    steps = [unquote(step) for step in uri.removeprefix(folder).split("/")]
    if not uri.startswith(folder) or any(step in ("", ".", "..") or set(step) & FORBIDDEN_IN_NAMES for step in steps):
        raise McpFailure(INTERNAL_ERROR, f"{uri} was refused: expected a file below {folder}")
    return PurePosixPath(*steps)


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
    try:
        return parse_front_matter(text)
    except ValueError as problem:
        raise McpFailure(INTERNAL_ERROR, f"{uri} was refused: {problem}") from problem
