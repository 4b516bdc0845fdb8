"""Compares the headers of 2026-07-28 that repeat parts of the body, after trimming and decoding.

A value may have the form `=?base64?...?=`, which is decoded strictly; every other value is literal. The body decides.
Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from patchbay.errors import HeaderMismatch

NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Methods whose `Mcp-Name` header repeats this member of `params`."""

_START, _END = "=?base64?", "?="


def decoded(value: str, header: str) -> str:
    """Return a header's value, decoded from the base64 form if it has that form. Raises HeaderMismatch."""
    if not (value.startswith(_START) and value.endswith(_END) and len(value) >= len(_START) + len(_END)):
        return _as_utf8(value)
    inner = value[len(_START) : -len(_END)]
    try:
        raw = base64.b64decode(inner, validate=True)
        if base64.b64encode(raw).decode("ascii") != inner:
            raise ValueError("not in canonical form")
        return raw.decode("utf-8")
    except (binascii.Error, ValueError) as problem:
        raise HeaderMismatch(f"{header}: {value!r} is not a valid base64 form of UTF-8 text ({problem})") from problem


def _as_utf8(value: str) -> str:
    if value.isascii():
        return value
    # WSGI decodes header bytes as Latin-1.
    try:
        return value.encode("latin-1").decode("utf-8")
    except (UnicodeDecodeError, UnicodeEncodeError):
        return value


def check_routing(headers: Mapping[str, str], method: str, params: Mapping[str, Any]) -> None:
    """Check that `Mcp-Method` and `Mcp-Name` equal the body. Raises HeaderMismatch."""
    found = headers.get("mcp-method")
    if found is None or decoded(found, "Mcp-Method") != method:
        raise HeaderMismatch(f"Mcp-Method has to be {method!r}, as in the body; it is {_describe(found)}")
    member = NAMED_BY.get(method)
    if member is None:
        return
    wanted, found = params.get(member), headers.get("mcp-name")
    if isinstance(wanted, str) and (found is None or decoded(found, "Mcp-Name") != wanted):
        raise HeaderMismatch(f"Mcp-Name has to be {wanted!r}, as params.{member} in the body; it is {_describe(found)}")


def check_parameters(
    headers: Mapping[str, str], parameters: Iterable[tuple[str, tuple[str, ...]]], arguments: Mapping[str, Any]
) -> None:
    """Check that `Mcp-Param-*` headers repeat the arguments that `parameters` names, as `annotated` yields them.

    Raises HeaderMismatch.
    """
    for name, path in parameters:
        header = f"Mcp-Param-{name}"
        found, argument = headers.get(header.lower()), _at(arguments, path)
        if argument is None:
            if found is not None:
                raise HeaderMismatch(f"{header} is {found!r}, but the argument {'.'.join(path)} is not given")
        elif found is None:
            raise HeaderMismatch(f"{header} is missing; the argument {'.'.join(path)} has to be repeated there")
        elif not _same(decoded(found, header), argument):
            raise HeaderMismatch(f"{header} is {found!r}, but the argument {'.'.join(path)} is {argument!r}")


def annotated(schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the `x-mcp-header` names in a schema with the path of each property."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    for key, inner in properties.items():
        if not isinstance(inner, Mapping):
            continue
        if isinstance(inner.get("x-mcp-header"), str):
            yield inner["x-mcp-header"], (*path, key)
        yield from annotated(inner, (*path, key))


def _at(arguments: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        arguments = arguments.get(key) if isinstance(arguments, Mapping) else None
    return arguments


def _same(text: str, argument: Any) -> bool:
    if isinstance(argument, bool):
        return text == ("true" if argument else "false")
    if isinstance(argument, (int, float)):
        try:
            # Decimal is exact: as floats, large neighbouring integers would be equal.
            return Decimal(text) == Decimal(str(argument))
        except InvalidOperation:
            return False
    return bool(text == argument)


def _describe(value: str | None) -> str:
    return "missing" if value is None else repr(value)
