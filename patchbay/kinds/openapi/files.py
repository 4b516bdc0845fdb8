"""Arguments that are files: a `data:` URI, or `cid://` and the CID of content on this hub."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from patchbay.activation import Call
from patchbay.client.openapi.files import FileContent, choose_file_name, load_data_uris
from patchbay.errors import InvalidParams, ToolFailed

ABOUT = "A file: a data: URI, or cid:// and the CID of content on this hub."


def load_files(value: Any, call: Call) -> Any:
    """Return the content of a file that an argument names, or of each file in a list. Raises ToolFailed."""

    def load_other(text: str) -> FileContent:
        if text.startswith("cid://"):
            return _read_content(text, call)
        raise ToolFailed(f"expected a file as a data: URI or cid://..., got {text[:40]!r}")

    try:
        return load_data_uris(value, load_other)
    except InvalidParams as problem:
        raise ToolFailed(problem.message) from problem


def _read_content(uri: str, call: Call) -> FileContent:
    if call.hub is None:
        raise ToolFailed("this call runs without a hub, so it cannot read cid://...")
    found = call.hub.read(uri, call)
    data = b64decode(found["blob"]) if "blob" in found else str(found.get("text", "")).encode()
    media_type = str(found.get("mimeType") or "application/octet-stream")
    return FileContent(data, media_type, choose_file_name(media_type))
