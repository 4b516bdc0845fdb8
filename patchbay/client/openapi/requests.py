"""Build the HTTP request of a call: arguments go into the path, the query, headers, cookies and the body.

Values are written as OpenAPI requires (style, explode, collectionFormat). In a path everything but unreserved
characters is percent-encoded, so that an argument cannot change the path; `.` and `..` are refused as path segments.
Pure.

Sources: OpenAPI 3.1.1, style values and media types; OpenAPI 2.0, collectionFormat; RFC 3986.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_plus, urlencode, urljoin, urlsplit

import orjson

from patchbay.client.contracts.wrong_arguments import describe_wrong_arguments
from patchbay.client.openapi.operations import FORM_MEDIA_TYPE, MULTIPART_MEDIA_TYPE, Body, Operation, Parameter
from patchbay.errors import InvalidParams

Pair = tuple[str, str]
Part = tuple[str, tuple[str | None, str | bytes, str | None]]
"""One part of a multipart body: its field, then its file name, its content and its media type."""

HARMLESS_RESERVED_CHARACTERS = ":/?@!$'()*,;"
"""Reserved characters that cannot end a value in a query (RFC 3986 section 3.4): all but `&=+#[]`."""

_HEADER = re.compile(r"[\x20-\x7e]*")
_JSON = re.compile(r"application/json|.*\+json")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to send: `url` whole, `content` bytes or None, `files` for multipart/form-data."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    files: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of a file as the value of an argument."""

    data: bytes
    media_type: str = "application/octet-stream"
    name: str = "file"


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
    path, query, headers, cookies = operation.path, list[str](), {}, []
    for parameter in operation.parameters:
        if parameter.argument not in left:
            if parameter.required:
                raise InvalidParams(
                    f"{operation.name}: expected the argument {parameter.argument!r} ({parameter.place})"
                )
            continue
        value = left.pop(parameter.argument)
        if parameter.place == "path":
            path = path.replace("{" + parameter.name + "}", _encode_path_value(operation, parameter, value))
        elif parameter.place == "query":
            query += _encode_query(parameter, value)
        elif parameter.place == "header":
            headers[parameter.name] = _check_header_value(operation, parameter, _join_value(parameter, value))
        else:
            cookies += [f"{quote(key, safe='')}={quote(text, safe='')}" for key, text in _list_pairs(parameter, value)]
    headers |= {"Cookie": "; ".join(cookies)} if cookies else {}
    content, files = _build_body(operation, left, headers)
    if left:
        raise InvalidParams(f"{operation.name}: {describe_wrong_arguments(operation.tool, arguments)}")
    if "{" in path:
        raise InvalidParams(
            f"{operation.name}: the document describes no parameter for {path[path.index('{') :][:80]!r}"
        )
    _check_segments(operation, path)
    url = base + path + (f"?{'&'.join(query)}" if query else "")
    return HttpRequest(operation.method.upper(), url, headers, content, files)


def _check_segments(operation: Operation, path: str) -> None:
    """Check that arguments make no segment that leads to another path. A style or a neighbour can add points.

    Raises InvalidParams.
    """
    for template, segment in zip(operation.path.split("/"), path.split("/"), strict=False):
        if segment != template and segment in (".", ".."):
            raise InvalidParams(f"{operation.name}: expected a path segment for {template}, got {segment!r}")


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list | bool) or value is None:
        return _encode_json(value).decode()
    return str(value)


def _encode_json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # integers beyond 64 bits, which orjson does not write
        return json.dumps(value, ensure_ascii=False).encode()


def _list_pieces(value: Any) -> list[str]:
    """List the items of a list, or the names and values of an object in turn."""
    if isinstance(value, dict):
        return [piece for key, one in value.items() for piece in (key, _format_value(one))]
    return [_format_value(one) for one in value] if isinstance(value, list) else [_format_value(value)]


def _encode_query(parameter: Parameter, value: Any) -> Iterator[str]:
    """Encode one parameter as pairs of a query. The items of a list are encoded one by one, so that they stay apart."""
    safe = HARMLESS_RESERVED_CHARACTERS if parameter.allows_reserved else ""
    joint = parameter.separator
    if joint != "&" and isinstance(value, dict | list) and not parameter.is_json and parameter.style != "deepObject":
        pieces = (quote_plus(piece, safe=safe) for piece in _list_pieces(value))
        yield f"{quote_plus(parameter.name)}={(',' if joint == ',' else quote_plus(joint)).join(pieces)}"
        return
    for key, text in _list_pairs(parameter, value):
        yield f"{quote_plus(key)}={quote_plus(text, safe=safe)}"


def _list_pairs(parameter: Parameter, value: Any) -> Iterator[Pair]:
    name, joint = parameter.name, parameter.separator
    if parameter.is_json:
        yield name, _encode_json(value).decode()
    elif parameter.style == "deepObject" and isinstance(value, dict):
        yield from _list_deep_pairs(name, value)
    elif isinstance(value, dict) and joint == "&":
        yield from ((key, _format_value(one)) for key, one in value.items())
    elif isinstance(value, list) and joint == "&":
        yield from ((name, _format_value(one)) for one in value)
    else:
        yield name, joint.join(_list_pieces(value))


def _list_deep_pairs(name: str, value: Any) -> Iterator[Pair]:
    """List `name[key]` for each value inside an object; the items of a list have one key."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _list_deep_pairs(f"{name}[{key}]", one)
    elif isinstance(value, list):
        for one in value:
            yield name, _format_value(one)
    else:
        yield name, _format_value(value)


def _join_value(parameter: Parameter, value: Any) -> str:
    if parameter.is_json:
        return _encode_json(value).decode()
    if isinstance(value, dict) and parameter.separator == "&":
        return ",".join(f"{key}={_format_value(one)}" for key, one in value.items())
    return (parameter.separator if parameter.separator not in ("&", "\t") else ",").join(_list_pieces(value))


def _encode_path_value(operation: Operation, parameter: Parameter, value: Any) -> str:
    exploded = parameter.separator == "&"
    encoded = [quote(piece, safe="") for piece in _list_pieces(value)]
    if parameter.style == "label":
        return "." + (".".join(encoded) if exploded else ",".join(encoded))
    if parameter.style == "matrix":
        name = quote(parameter.name, safe="")
        return "".join(f";{name}={one}" for one in encoded) if exploded else f";{name}={','.join(encoded)}"
    text = quote(_join_value(parameter, value), safe=",=" if isinstance(value, list | dict) else "")
    if text in ("", ".", ".."):
        raise InvalidParams(f"{operation.name}: {parameter.argument}: expected a path segment, got {value!r:.80}")
    return text


def _check_header_value(operation: Operation, parameter: Parameter, text: str) -> str:
    if not _HEADER.fullmatch(text):
        raise InvalidParams(f"{operation.name}: {parameter.argument}: expected printable ASCII for a header")
    return text


def _build_body(
    operation: Operation, left: dict[str, Any], headers: dict[str, str]
) -> tuple[bytes | None, tuple[Part, ...]]:
    """Build the body from the remaining arguments, and remove the used ones from `left`."""
    body = operation.body
    if body is None:
        return None, ()
    if body.fields is None:
        if "body" not in left:
            if body.required:
                raise InvalidParams(f"{operation.name}: expected the argument 'body'")
            return None, ()
        return _encode_body(body, left.pop("body"), headers)
    found = {name: left.pop(argument) for argument, name in body.fields.items() if argument in left}
    if body.allows_other_fields and operation.method != "get":
        found |= left
        left.clear()
    missing = [name for name in body.schema.get("required", ()) if name not in found]
    if missing and (found or body.required):
        raise InvalidParams(f"{operation.name}: expected the field {missing[0]!r} in the body")
    return _encode_body(body, found, headers) if found or body.required else (None, ())


def _encode_body(body: Body, value: Any, headers: dict[str, str]) -> tuple[bytes | None, tuple[Part, ...]]:
    bare = body.media_type.partition(";")[0].strip().lower()
    if bare == MULTIPART_MEDIA_TYPE and isinstance(value, dict):
        return None, tuple(
            (name, _make_part(piece))
            for name, one in value.items()
            for piece in (one if isinstance(one, list) else [one])
        )
    if isinstance(value, FileContent):
        headers["Content-Type"] = value.media_type if "*" in bare else body.media_type
        return value.data, ()
    headers["Content-Type"] = body.media_type if "*" not in bare else "application/octet-stream"
    if bare == FORM_MEDIA_TYPE and isinstance(value, dict):
        rows = [
            (name, _format_value(piece))
            for name, one in value.items()
            for piece in (one if isinstance(one, list) else [one])
        ]
        return urlencode(rows).encode(), ()
    if _JSON.fullmatch(bare):
        return _encode_json(value), ()
    return _format_value(value).encode(), ()


def _make_part(value: Any) -> tuple[str | None, str | bytes, str | None]:
    if isinstance(value, FileContent):
        return value.name, value.data, value.media_type
    return None, _format_value(value), "application/json" if isinstance(value, dict) else None
