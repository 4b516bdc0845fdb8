"""Arguments that are files, and the content of `data:` URIs.

Sources: RFC 2397 (data URIs); OpenAPI 3.0.4 (format binary) and 3.1.1 (contentEncoding, contentMediaType).
"""

from __future__ import annotations

import binascii
import mimetypes
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

from patchbay.client.openapi.styles import get_bare_media_type
from patchbay.errors import InvalidParams

_DATA = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),(.*)", re.DOTALL)
_TEXTS = ("json", "xml", "yaml", "javascript", "csv", "graphql")


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of a file as the value of an argument."""

    data: bytes
    media_type: str = "application/octet-stream"
    name: str = "file"


def is_file(schema: Any) -> bool:
    """Whether a schema describes the bytes of a file."""
    if not isinstance(schema, Mapping) or schema.get("type") not in ("string", "file", ["string", "null"], None):
        return False
    if schema.get("type") == "file":
        return True
    if schema.get("format") in ("binary", "byte"):
        return bool(schema["format"] == "binary")
    return "contentMediaType" in schema and "contentEncoding" not in schema and "type" in schema


def is_binary_media_type(media_type: str) -> bool:
    """Whether a body of a media type is bytes: not JSON, a form, or text."""
    bare = get_bare_media_type(media_type)
    is_listed = bare in ("multipart/form-data", "application/x-www-form-urlencoded")
    return not is_listed and not bare.startswith("text/") and not bare.endswith(_TEXTS)


def parse_data_uri(text: str) -> FileContent | None:
    """Parse a `data:` URI; None for other text. Raises InvalidParams."""
    found = _DATA.fullmatch(text)
    if found is None:
        return None
    media_type, parameters, content = found.groups()
    words = [word for word in parameters.split(";") if word]
    try:
        data = b64decode(unquote(content), validate=True) if "base64" in words else unquote_to_bytes(content)
    except (binascii.Error, ValueError) as problem:
        raise InvalidParams(f"expected base64 in the data: URI of a file ({problem})") from problem
    names = [unquote(word[5:]) for word in words if word.startswith("name=")]
    return FileContent(data, media_type or "text/plain", names[0] if names else choose_file_name(media_type))


def load_data_uris(value: Any, load_other: Callable[[str], Any]) -> Any:
    """Return the content of a `data:` URI, or of each in a list; `load_other` is asked for any other text."""
    if isinstance(value, list):
        return [load_data_uris(one, load_other) for one in value]
    if not isinstance(value, str):
        return value
    found = parse_data_uri(value)
    return load_other(value) if found is None else found


def choose_file_name(media_type: str) -> str:
    """Choose the name of a file of a media type."""
    return "file" + (mimetypes.guess_extension(media_type.partition(";")[0]) or "")
