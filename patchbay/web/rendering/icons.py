"""Icons of servers and tools: the picture in a `data:` URL of an MCP `icons` list, else a letter.

An icon at another address is not shown: the browser of the reader would tell that host who reads which page, and the
hub would send requests to addresses that a server chooses. The bytes decide the media type, not the server.
Source: MCP 2025-11-25, basic, "Icons"; RFC 2397.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import crc32
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from patchbay.web.rendering.content_kinds import decode_text, image_type

MAX_ICON_BYTES = 64 * 1024
"""Bytes of a picture, at most."""

MAX_ICONS = 8
"""Entries of one `icons` list that are looked at."""

TINTS = 8
"""Colours behind letters; the style sheet has a class `tint-N` for each."""

SVG = "image/svg+xml"

_DATA_URL = re.compile(r"data:image/[a-z0-9.+-]+(?:;[a-z0-9-]+=[^;,]*)*(;base64)?,", re.IGNORECASE)
_SVG_START = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<svg[\s>]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Icon:
    """A picture: its media type and its bytes."""

    media_type: str
    data: bytes


def find_icon(icons: Any) -> Icon | None:
    """Find the first picture that a page can show in an `icons` list; one for a dark background comes last.

    Pictures are PNG, JPEG, GIF, WebP, or SVG without a document type, of at most MAX_ICON_BYTES. The list may be any
    value, because a mounted server wrote it.
    """
    return next(_read_icons(icons), None)


def _read_icons(icons: Any) -> Iterator[Icon]:
    listed = [each for each in icons[:MAX_ICONS] if isinstance(each, dict)] if isinstance(icons, list) else []
    for each in sorted(listed, key=lambda one: one.get("theme") == "dark"):
        found = _read_data_url(each.get("src"))
        kind = _picture_type(found) if found is not None else None
        if found is not None and kind is not None:
            yield Icon(kind, found)


def _read_data_url(source: Any) -> bytes | None:
    # Base64 needs 4 characters for 3 bytes, escapes in a URL 3 for 1.
    if not isinstance(source, str) or len(source) > 3 * MAX_ICON_BYTES:
        return None
    head = _DATA_URL.match(source)
    if head is None:
        return None
    try:
        data = unquote_to_bytes(source[head.end() :])
        data = b64decode(data, validate=True) if head[1] else data
    except ValueError:
        return None
    return data if len(data) <= MAX_ICON_BYTES else None


def _picture_type(data: bytes) -> str | None:
    found = image_type(data)
    if found is not None:
        return found
    text = decode_text(data)
    # A document type can define entities that expand to gigabytes.
    is_svg = text is not None and _SVG_START.match(text) and "<!doctype" not in text.lower()
    return SVG if is_svg else None


def first_letter(title: str) -> str:
    """The letter or digit that stands for a title without a picture; `#` for a title without one."""
    found = next((each for each in title if each.isalnum()), "#")
    return found.upper()[0]


def choose_tint(name: str) -> int:
    """The number of the colour behind the letter of a name: the same on each page and after each restart."""
    return crc32(name.encode("utf-8", "replace")) % TINTS
