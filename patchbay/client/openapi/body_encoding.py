"""Encode the body of a request: JSON, a form, multipart, XML, text or bytes.

Each field of a form is written in the style of its Encoding Object, else by its type: text as it is, the items of a
list one by one, an object as JSON.

Sources: OpenAPI 3.0.4 and 3.1.1, Encoding Object; RFC 7578 (multipart/form-data); RFC 1866 section 8.2.1 (forms).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.client.openapi.bodies import MULTIPART_MEDIA_TYPE, Body, Encoding, is_xml_media_type
from patchbay.client.openapi.files import FileContent
from patchbay.client.openapi.styles import (
    FORM_MEDIA_TYPE,
    Style,
    encode_json,
    encode_query,
    format_content,
    format_value,
    is_json_media_type,
    list_pairs,
)
from patchbay.client.openapi.xml_bodies import encode_xml

Part = tuple[str, tuple[str | None, str | bytes, str | None]]
"""One part of a multipart body: its field, then its file name, its content and its media type."""

_PLAIN = Encoding()
_REPEATED = Style()


@dataclass(frozen=True, slots=True)
class EncodedBody:
    """A body to send: bytes, or the parts of a multipart body. `media_type` is the header `Content-Type`, "" for none.

    The media type of a multipart body is added with its boundary when it is sent.
    """

    content: bytes | None = None
    files: tuple[Part, ...] = ()
    media_type: str = ""


def encode_body(body: Body, value: Any) -> EncodedBody:
    """Encode the value of a body in its media type."""
    bare = body.bare_media_type
    if bare == MULTIPART_MEDIA_TYPE and isinstance(value, Mapping):
        parts = (
            part for name, one in value.items() for part in _list_parts(name, one, body.encodings.get(name, _PLAIN))
        )
        return EncodedBody(files=tuple(parts))
    if isinstance(value, FileContent):
        return EncodedBody(value.data, media_type=value.media_type if "*" in bare else body.media_type)
    media_type = body.media_type if "*" not in bare else "application/octet-stream"
    if bare == FORM_MEDIA_TYPE and isinstance(value, Mapping):
        rows = (
            pair for name, one in value.items() for pair in _encode_field(name, one, body.encodings.get(name, _PLAIN))
        )
        return EncodedBody("&".join(rows).encode(), media_type=media_type)
    if is_json_media_type(bare):
        return EncodedBody(encode_json(value), media_type=media_type)
    if is_xml_media_type(bare) and not isinstance(value, str) and body.references is not None:
        return EncodedBody(encode_xml(value, body.described, body.references), media_type=media_type)
    return EncodedBody(format_value(value).encode(), media_type=media_type)


def _encode_field(name: str, value: Any, encoding: Encoding) -> Iterator[str]:
    """Encode one field of a form as pairs."""
    media_type = encoding.media_types[0] if encoding.media_types else ""
    if encoding.style.kind:
        yield from encode_query(name, value, encoding.style)
    elif is_json_media_type(media_type):
        yield from encode_query(name, format_content(value, media_type), _REPEATED)
    else:
        for one in value if isinstance(value, list) else [value]:
            text = one.data.decode("utf-8", "replace") if isinstance(one, FileContent) else one
            yield from encode_query(name, text if text is None else format_value(text), _REPEATED)


def _list_parts(name: str, value: Any, encoding: Encoding) -> Iterator[Part]:
    """List the parts of one field of a multipart body."""
    media_types = encoding.media_types
    if encoding.style.kind and not _has_file(value):
        for key, text in list_pairs(name, value, encoding.style):
            yield key, (None, text, None)
    elif isinstance(value, list) and not (media_types and is_json_media_type(media_types[0])):
        for one in value:
            yield from _list_parts(name, one, encoding)
    elif isinstance(value, FileContent):
        yield name, (value.name, value.data, _choose_file_type(value, media_types))
    elif value is not None:
        concrete = next((one for one in media_types if "*" not in one), None)
        media_type = concrete or ("application/json" if isinstance(value, dict) else None)
        yield name, (None, format_content(value, media_type or "text/plain"), media_type)


def _has_file(value: Any) -> bool:
    return any(isinstance(one, FileContent) for one in (value if isinstance(value, list) else [value]))


def _choose_file_type(value: FileContent, media_types: tuple[str, ...]) -> str:
    """Return the media type of a file: its own if the document allows it, else the first that the document names."""
    own = value.media_type.partition(";")[0].strip().lower()
    allowed = [one.partition(";")[0].strip().lower() for one in media_types]
    fits = any(one in (own, "*/*") or (one.endswith("/*") and own.startswith(one[:-1])) for one in allowed)
    concrete = next((one for one in media_types if "*" not in one), "")
    return value.media_type if fits or not concrete else concrete
