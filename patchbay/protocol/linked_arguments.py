"""Arguments by reference: where the schema of a tool says so, a caller gives a link in place of a content.

A schema says so by `"format": "cid"` or `"contentEncoding": "base64"`, of an argument or of the items of a list. The
link is a `cid://` link of the caller: to a large result of its own, or to what it uploaded. The tool gets the content,
as base64 or as text, by its schema. So the bytes do not pass through the context of a model.

A link that is not the caller's is answered as one that is not there. A mounted server gets it as it came: it may be a
link of that server.
Source: JSON Schema 2020-12, Validation, section 8 (contentEncoding).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from patchbay.arguments import aliases
from patchbay.catalogue.servers.server import Server, ServerCache
from patchbay.descriptors import Descriptor
from patchbay.errors import WrongArguments

BASE64, TEXT = "base64", "text"

LINK_START = "cid://"

MAX_LINKS = 64
"""Links in the arguments of one call."""

ReadLink = Callable[[str, str], bytes | None]
"""Returns the content of a link, for a principal; None for a link that it may not read, or that is none."""

_PLACES: ServerCache[str, Mapping[str, str]] = ServerCache()
"""The arguments that take a link, by the name of a tool: the form of the content by the name of the argument."""


def resolve_links(
    server: Server,
    descriptor: Descriptor,
    arguments: dict[str, Any],
    read: ReadLink,
    principal: str,
    limit: int,
    count: Callable[[int], None] = lambda size: None,
) -> dict[str, Any]:
    """Return the arguments with the contents of their links: the same object when they have none.

    `limit` is the greatest number of bytes of all contents together; `count` gets the bytes of each. Raises
    WrongArguments with `{"details": [{path, message}]}`, and what `count` raises.
    """
    places = _PLACES.get(server, descriptor.name, lambda: find_places(descriptor.wire.get("inputSchema", {})))
    given = [name for name in places if name in arguments and _has_link(arguments[name])] if places else ()
    if not given:
        return arguments
    links = _Links(read, principal, limit, count, descriptor.source == "upstream")
    return {**arguments, **{name: links.resolve(name, arguments[name], places[name]) for name in given}}


def find_places(schema: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the arguments of a schema that take a link, also by their aliases, with the form of the content."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    found = {name: form for name, one in properties.items() if (form := _find_form(one, schema))}
    return {**found, **{alias: found[name] for alias, name in aliases(properties).items() if name in found}}


def _find_form(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """Return the form of the content that a schema asks for, BASE64 or TEXT; empty if it takes no link."""
    if not isinstance(schema, Mapping) or depth > 4:
        return ""
    if schema.get("contentEncoding") == "base64":
        return BASE64
    if schema.get("format") == "cid":
        return TEXT
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        definitions = root.get("$defs")
        inner = definitions.get(reference.removeprefix("#/$defs/")) if isinstance(definitions, Mapping) else None
        return _find_form(inner, root, depth + 1)
    branches = [schema.get("items"), *(_listed(schema.get("anyOf"))), *(_listed(schema.get("oneOf")))]
    return next((form for one in branches if (form := _find_form(one, root, depth + 1))), "")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _has_link(value: Any) -> bool:
    if isinstance(value, str):
        return value[: len(LINK_START)].lower() == LINK_START
    return isinstance(value, list) and any(_has_link(one) for one in value if isinstance(one, str))


class _Links:
    """The links of one call: `limit` bytes in all. `is_mounted`: links of others are those of the mounted server."""

    def __init__(
        self, read: ReadLink, principal: str, limit: int, count: Callable[[int], None], is_mounted: bool
    ) -> None:
        self._read = read
        self._principal = principal
        self._limit = self._left = limit
        self._count_bytes = count
        self._count = 0
        self._is_mounted = is_mounted

    def resolve(self, name: str, value: Any, form: str) -> Any:
        """Return the content of a link, or a list with the contents of its links. Raises WrongArguments."""
        if isinstance(value, list):
            return [self.resolve(f"{name}.{place}", one, form) for place, one in enumerate(value)]
        if not isinstance(value, str) or not _has_link(value):
            return value
        self._count += 1
        if self._count > MAX_LINKS:
            raise _wrong(name, f"expected at most {MAX_LINKS} links in one call")
        data = self._read(value, self._principal)
        if data is None:
            if self._is_mounted:
                return value
            raise _wrong(
                name,
                "there is no content of yours at this link: expected a cid:// link with its key, from a result of a"
                " tool or from POST /blobs, that has not expired",
            )
        self._left -= len(data)
        if self._left < 0:
            raise _wrong(name, f"its content is too large: {self._limit} bytes in one call (setting upload_limit)")
        self._count_bytes(len(data))
        return b64encode(data).decode() if form == BASE64 else _decode(name, data)


def _decode(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise _wrong(
            name, f"expected a content in UTF-8, because the tool takes a text; the byte at {problem.start} is not"
        ) from problem


def _wrong(name: str, message: str) -> WrongArguments:
    return WrongArguments(f"{name}: {message}", {"details": [{"path": name, "message": message}]})
