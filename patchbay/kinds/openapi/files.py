"""Arguments that are files: a `data:` URI, or `cid://` and the CID of content on this hub.

Sources: RFC 2397 (data URIs); OpenAPI 3.0.4 (format binary) and 3.1.1 (contentEncoding, contentMediaType).
"""

from __future__ import annotations

import binascii
import mimetypes
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

from patchbay.activation import Call
from patchbay.client.openapi.requests import FileContent
from patchbay.errors import ToolFailed

ABOUT = "A file: a data: URI, or cid:// and the CID of content on this hub."

_DATA = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),(.*)", re.DOTALL)


def is_file(schema: Any) -> bool:
    """Whether a schema describes the bytes of a file."""
    if not isinstance(schema, Mapping) or schema.get("type") not in ("string", ["string", "null"], None):
        return False
    if schema.get("format") in ("binary", "byte"):
        return bool(schema["format"] == "binary")
    return "contentMediaType" in schema and "contentEncoding" not in schema and "type" in schema


def load_files(value: Any, call: Call) -> Any:
    """Return the content of a file that an argument names, or of each file in a list. Raises ToolFailed."""
    if isinstance(value, list):
        return [load_files(one, call) for one in value]
    if not isinstance(value, str):
        return value
    found = _DATA.fullmatch(value)
    if found:
        return _decode_data_uri(*found.groups())
    if value.startswith("cid://"):
        return _read_content(value, call)
    raise ToolFailed(f"expected a file as a data: URI or cid://..., got {value[:40]!r}")


def _decode_data_uri(media_type: str, parameters: str, text: str) -> FileContent:
    words = [word for word in parameters.split(";") if word]
    try:
        data = b64decode(unquote(text), validate=True) if "base64" in words else unquote_to_bytes(text)
    except (binascii.Error, ValueError) as problem:
        raise ToolFailed(f"expected base64 in the data: URI of a file ({problem})") from problem
    names = [unquote(word[5:]) for word in words if word.startswith("name=")]
    return FileContent(data, media_type or "text/plain", names[0] if names else _choose_name(media_type))


def _read_content(uri: str, call: Call) -> FileContent:
    if call.hub is None:
        raise ToolFailed("this call runs without a hub, so it cannot read cid://...")
    found = call.hub.read(uri, call)
    data = b64decode(found["blob"]) if "blob" in found else str(found.get("text", "")).encode()
    media_type = str(found.get("mimeType") or "application/octet-stream")
    return FileContent(data, media_type, _choose_name(media_type))


def _choose_name(media_type: str) -> str:
    return "file" + (mimetypes.guess_extension(media_type.partition(";")[0]) or "")
