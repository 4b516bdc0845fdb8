"""Arguments whose values are files: a text, a JSON value or base64, as the schema of the tool asks for.

A schema with `format: cid` gets the link of the uploaded file, where the server has uploads. One with
`contentEncoding: base64` or `format: byte` gets base64. One that describes a file (`format: binary`,
`contentMediaType`) gets a `data:` URI for an HTTP API, which sends its bytes; for an MCP server a text, or base64 when
the file is no text. Every other schema gets the text of the file, as if it had been typed.
Sources: OpenAPI 3.1.1 (contentEncoding, contentMediaType); RFC 2397 (data URIs).
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from patchbay.client.contracts.coercion import coerce_arguments
from patchbay.client.contracts.schema_types import collect_properties, find_types, resolve_reference
from patchbay.errors import InvalidParams

_BASE64_FORMATS = ("byte", "base64")
_FILE_FORMATS = ("binary", "data-url", "data-uri")


@dataclass(frozen=True, slots=True)
class FileArgument:
    """A file as the value of an argument. `name` is its path, or `-` for standard input."""

    name: str
    data: bytes


Upload = Callable[[bytes], str | None]
"""Uploads a content to the server; returns its link, None where the server has no uploads."""


def resolve_files(
    arguments: Mapping[str, Any], input_schema: Any, is_api: bool = False, upload: Upload | None = None
) -> dict[str, Any]:
    """Return arguments with the value of each FileArgument, also in lists, by the schema of the tool (None: unknown).

    `is_api` says that an HTTP API takes the arguments. Raises InvalidParams for a file that is no text where the schema
    asks for text, and what `upload` raises.
    """
    return {name: _resolve(name, value, input_schema, is_api, upload) for name, value in arguments.items()}


def _resolve(name: str, value: Any, root: Any, is_api: bool, upload: Upload | None) -> Any:
    files = value if isinstance(value, list) else [value]
    if not files or not isinstance(files[0], FileArgument):
        return value
    known = collect_properties(root, root).get(name) if isinstance(root, dict) else None
    schema = _get_item_schema(known, root)
    links = _upload_all(files, upload) if schema.get("format") == "cid" and upload is not None else None
    if links is not None:
        found: list[Any] = links
    elif schema.get("contentEncoding") == "base64" or schema.get("format") in _BASE64_FORMATS:
        found = [base64.b64encode(file.data).decode() for file in files]
    elif schema.get("format") in _FILE_FORMATS or schema.get("type") == "file" or "contentMediaType" in schema:
        makes_uri = is_api or str(schema.get("format")).startswith("data-")
        found = [_make_data_uri(file) if makes_uri else _read_any(file) for file in files]
    else:
        is_string = known is None or "string" in find_types(schema, root)
        texts = [text if is_string else text.strip() for text in (_read_text(name, file) for file in files)]
        typed = coerce_arguments({name: texts if isinstance(value, list) else texts[0]}, root)
        return typed[name]
    return found if isinstance(value, list) else found[0]


def _upload_all(files: list[FileArgument], upload: Upload) -> list[Any] | None:
    """Return the links of files; None if one of them cannot be uploaded."""
    links = [upload(file.data) for file in files]
    return None if None in links else links


def _get_item_schema(schema: Any, root: Any) -> Mapping[str, Any]:
    """Return the schema of one file: of the items, where the schema is an array."""
    found = resolve_reference(schema, root) if isinstance(schema, dict) else {}
    is_array = found.get("type") == "array" and isinstance(found.get("items"), dict)
    return resolve_reference(found["items"], root) if is_array else found


def _read_text(name: str, file: FileArgument) -> str:
    try:
        return file.data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise InvalidParams(
            f"{name}=@{file.name}: expected UTF-8 text, because the tool takes a text; the byte at {problem.start} is "
            f"0x{file.data[problem.start]:02x}. If the tool expects base64, encode the file first: base64 < FILE"
        ) from problem


def _read_any(file: FileArgument) -> str:
    """Return a file as text, or in base64 when it is no text."""
    try:
        return file.data.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(file.data).decode()


def _make_data_uri(file: FileArgument) -> str:
    media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    name = quote(PurePath(file.name).name) if file.name != "-" else "file"
    return f"data:{media_type};name={name};base64,{base64.b64encode(file.data).decode()}"
