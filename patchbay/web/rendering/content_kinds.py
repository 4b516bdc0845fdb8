"""What kind of content some bytes are, told from the bytes and from what points at them, and how each kind is shown.

Rules: nothing here decides how bytes are served to a browser (that is `content.media_type`); a guess that is wrong
shows a text with other colours, never anything that runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

import orjson

from patchbay.kind import known_kinds, recognized_kind
from patchbay.kinds.python.discovery.syntax import parse_source

IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

MOST_PARSED = 200_000
"""Characters of a text that is read to know its language."""

_MARKDOWN = re.compile(
    r"^(#{1,6} \S|```|[-*] \S.*\n[-*] \S|---\n[\s\S]*?\n---\n)|\]\([a-z/#][^()\[\]\s]*\)", re.MULTILINE
)
_STATEMENTS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign)


def image_type(data: bytes) -> str | None:
    """The media type of an image that browsers draw without running anything; None for all else, SVG too."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for head, kind in IMAGES if data.startswith(head)), None)


def text_of(data: bytes) -> str | None:
    """Bytes as text, None when they are none."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def kind_of(data: bytes, known_as: Iterable[str] = ()) -> str:
    """`image`, `binary`, `json`, `markdown`, `text` or a kind of definition; `known_as` is what others call it."""
    if image_type(data):
        return "image"
    text = text_of(data)
    if text is None:
        return "binary"
    named = {"markdown", *(kind.name for kind in known_kinds() if not kind.is_configuration)}
    said = [kind for kind in known_as if kind in named]
    if said:
        return said[0]
    if is_json(text):
        return "json"
    recognized = recognized_kind(data)
    if recognized is not None:
        return recognized.name
    if len(text) <= MOST_PARSED and _is_python(text):
        return "python"
    return "markdown" if _MARKDOWN.search(text[:MOST_PARSED]) else "text"


def is_json(text: str) -> bool:
    """Whether a text is a JSON object or array."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def dump(data: bytes, most: int = 512) -> list[dict[str, Any]]:
    """The first bytes as rows of sixteen: where, as hexadecimal, as characters."""
    rows = []
    for start in range(0, min(len(data), most), 16):
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
