"""Build the HTTP request of a call: arguments go into the path, the query, headers, cookies and the body.

This is the one mapping of operations to requests: the client and the mounts of the hub use it. In a path everything but
unreserved characters is percent-encoded, so that an argument cannot change the path; `.` and `..` are refused as path
segments. Pure.

Sources: OpenAPI 3.1.1, Path Item and Parameter Objects; RFC 3986.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_plus, urljoin, urlsplit

from patchbay.client.contracts.wrong_arguments import describe_wrong_arguments
from patchbay.client.openapi.body_encoding import EncodedBody, Part, encode_body
from patchbay.client.openapi.operations import Operation
from patchbay.client.openapi.parameters import Parameter, split_path
from patchbay.client.openapi.styles import (
    FORM_MEDIA_TYPE,
    encode_path,
    encode_query,
    format_content,
    format_header,
    format_value,
    get_bare_media_type,
    list_cookies,
)
from patchbay.errors import InvalidParams

_HEADER = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to send: `url` whole, `content` bytes or None, `files` for multipart/form-data."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    files: tuple[Part, ...] = ()


def choose_base_url(operation: Operation, document_url: str, given: str = "") -> str:
    """Choose the base URL of an operation: the one given, else the document's first server, relative to the document's
    URL.

    Raises InvalidParams when that is not an http(s) URL.
    """
    url = given or (urljoin(document_url, operation.servers[0]) if operation.servers else document_url)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidParams(
            f"{operation.name}: the document names no server with an http(s) URL ({url[:200]!r});"
            " expected launch.base_url=https://HOST/PATH"
        )
    return url.rstrip("/")


def build_request(operation: Operation, base: str, arguments: Mapping[str, Any]) -> HttpRequest:
    """Build the request of a call. Raises InvalidParams for missing arguments and for unknown ones."""
    left = dict(arguments)
    target = _Target(operation)
    headers: dict[str, str] = {}
    cookies: list[str] = []
    for parameter in operation.parameters:
        if parameter.argument not in left:
            if parameter.required:
                name = parameter.argument
                raise InvalidParams(f"{operation.name}: expected the argument {name!r} ({parameter.place})")
            continue
        value = left.pop(parameter.argument)
        if value is None and parameter.place != "path":
            continue
        if parameter.place == "header":
            text = format_header(value, parameter.style)
            headers[parameter.name] = _check_header_value(operation, parameter, text)
        elif parameter.place == "cookie":
            cookies += list_cookies(parameter.name, value, parameter.style)
        else:
            target.add(parameter, value)
    headers |= {"Cookie": "; ".join(cookies)} if cookies else {}
    body = _build_body(operation, left)
    if left:
        raise InvalidParams(f"{operation.name}: {describe_wrong_arguments(operation.tool, arguments)}")
    headers |= {"Content-Type": body.media_type} if body.media_type else {}
    return HttpRequest(operation.method.upper(), base + target.finish(), headers, body.content, body.files)


class _Target:
    """The path and the query of a request."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._template, self._fixed = split_path(operation.path)
        self._path = self._template
        self._pairs: list[str] = []

    def add(self, parameter: Parameter, value: Any) -> None:
        """Add the value of a parameter of the path or the query. Raises InvalidParams for a path segment."""
        mark = "{" + parameter.name + "}"
        if parameter.place == "path":
            if mark in self._path:
                self._path = self._path.replace(mark, self._encode_segment(parameter, value))
            self._fixed = [one.replace(mark, quote(format_value(value), safe="")) for one in self._fixed]
        elif parameter.place == "querystring":
            self._pairs += _encode_query_string(value, parameter.style.media_type)
        elif any(mark in one and not one.startswith(f"{parameter.name}=") for one in self._fixed):
            self._fixed = [one.replace(mark, quote_plus(format_value(value))) for one in self._fixed]
        else:
            self._fixed = [one for one in self._fixed if one.partition("=")[0] != parameter.name]
            self._pairs += encode_query(parameter.name, value, parameter.style)

    def finish(self) -> str:
        """Return the path with its query. Raises InvalidParams."""
        name = self._operation.name
        if "{" in self._path:
            missing = self._path[self._path.index("{") :][:80]
            raise InvalidParams(f"{name}: the document describes no parameter for {missing!r}")
        # A style or a neighbour of an argument can add points.
        for template, segment in zip(self._template.split("/"), self._path.split("/"), strict=False):
            if segment != template and segment in (".", ".."):
                raise InvalidParams(f"{name}: expected a path segment for {template}, got {segment!r}")
        pairs = [one for one in self._fixed if "{" not in one] + self._pairs
        return self._path + (f"?{'&'.join(pairs)}" if pairs else "")

    def _encode_segment(self, parameter: Parameter, value: Any) -> str:
        text = encode_path(parameter.name, value, parameter.style)
        if text in ("", ".", "..") and parameter.style.kind not in ("label", "matrix"):
            name = self._operation.name
            raise InvalidParams(f"{name}: {parameter.argument}: expected a path segment, got {value!r:.80}")
        return text


def _encode_query_string(value: Any, media_type: str) -> list[str]:
    """Encode the whole query of OpenAPI 3.2 (`in: querystring`)."""
    text = format_content(value, media_type)
    is_form = get_bare_media_type(media_type) == FORM_MEDIA_TYPE
    return [text if is_form and isinstance(value, dict) else quote(text, safe="")] if text else []


def _check_header_value(operation: Operation, parameter: Parameter, text: str) -> str:
    if not _HEADER.fullmatch(text):
        raise InvalidParams(f"{operation.name}: {parameter.argument}: expected printable ASCII for a header")
    return text


def _build_body(operation: Operation, left: dict[str, Any]) -> EncodedBody:
    """Build the body from the remaining arguments, and remove the used ones from `left`. Raises InvalidParams."""
    body = operation.body
    if body is None:
        return EncodedBody()
    if body.fields is None:
        if body.argument not in left:
            if body.required:
                raise InvalidParams(f"{operation.name}: expected the argument {body.argument!r}")
            return EncodedBody()
        return encode_body(body, left.pop(body.argument))
    found = {name: left.pop(argument) for argument, name in body.fields.items() if argument in left}
    if body.allows_other_fields and operation.method != "get":
        found |= left
        left.clear()
    missing = [name for name in body.schema.get("required", ()) if name not in found]
    if missing and (found or body.required):
        raise InvalidParams(f"{operation.name}: expected the field {missing[0]!r} in the body")
    return encode_body(body, found) if found or body.required else EncodedBody()
