"""Detect the kind of a content from its bytes and from the servers that refer to it.

The kind selects colours and layout only. `media_type` in `web/api/content.py` decides how a browser gets the bytes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

import orjson

from patchbay.kind import CONFIGURATION_KIND, known_kinds, recognized_kind
from patchbay.kinds import discovery
from patchbay.outputs.conversion import media_type_of
from patchbay.python_functions.syntax import parse_source

MAX_PARSED_CHARACTERS = 200_000
"""Characters of a text that language detection reads, at most."""

_MARKDOWN = re.compile(
    r"^(#{1,6} \S|```|[-*] \S.*\n[-*] \S|---\n[\s\S]*?\n---\n)|\]\([a-z/#][^()\[\]\s]*\)", re.MULTILINE
)
_STATEMENTS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign)


def image_type(data: bytes) -> str | None:
    """The media type of a bitmap image; None for other content. SVG does not count, because it can hold scripts."""
    found = media_type_of(data)
    return found if found is not None and found.startswith("image/") else None


def decode_text(data: bytes) -> str | None:
    """Decode bytes as UTF-8 text; None when they are not text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def detect_kind(data: bytes, known_as: Iterable[str] = ()) -> str:
    """Detect `image`, `binary`, `json`, `markdown`, `text` or a kind of definition; `known_as` lists declared kinds."""
    if image_type(data):
        return "image"
    text = decode_text(data)
    if text is None:
        return "binary"
    named = {"markdown", *(kind.name for kind in known_kinds() if not kind.is_configuration)}
    declared = [kind for kind in known_as if kind in named]
    if declared:
        return declared[0]
    if is_json(text):
        return "json"
    recognized = recognized_kind(data)
    if recognized is not None:
        return recognized.name
    if len(text) <= MAX_PARSED_CHARACTERS and _is_python(text):
        return "python"
    return "markdown" if _MARKDOWN.search(text[:MAX_PARSED_CHARACTERS]) else "text"


def detect_definition_kind(text: str) -> str:
    """Detect the kind of the definition of a new server: a JSON object is a configuration; else discovery decides."""
    return CONFIGURATION_KIND if is_json(text) else discovery.detect_kind(text.encode("utf-8", "replace"))


def is_json(text: str) -> bool:
    """Whether a text is a JSON object or array."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def hex_dump(data: bytes, max_bytes: int = 512) -> list[dict[str, Any]]:
    """The first bytes as rows of sixteen: offset, hexadecimal, characters."""
    rows = []
    for start in range(0, min(len(data), max_bytes), 16):
        part = data[start : start + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part)
        rows.append({"at": f"{start:06x}", "bytes": part.hex(" "), "characters": shown})
    return rows


def _is_python(text: str) -> bool:
    try:
        body = parse_source(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, _STATEMENTS) for node in body)
