"""The answer of an API as events: JSON as structured content, text as text, other content as blocks.

An answer fits the output schema of its tool in any case: one that does not fit the document is text beside an empty
object.

Sources: RFC 9110 section 15 (status codes); RFC 9457 (problem details); WHATWG HTML, server-sent events; NDJSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from patchbay.arguments import problems, validator
from patchbay.client.addresses.targets import mask_url
from patchbay.client.openapi.http_client import Reply
from patchbay.descriptors import Descriptor
from patchbay.errors import ParseError
from patchbay.events import Data, Event, Text
from patchbay.jsonrpc import parse
from patchbay.outputs.conversion import of_bytes
from patchbay.views.fold import format_value

MAX_ERROR_CHARACTERS = 8_000
"""Characters of the body of an error that its message has."""

STREAMED = frozenset({"text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl"})
STREAMED |= frozenset({"application/x-jsonlines", "application/json-seq", "application/stream+json"})
_TEXTS = (
    *("application/xml", "application/yaml", "application/x-yaml", "application/javascript", "application/sql"),
    *("application/x-www-form-urlencoded", "application/toml", "application/graphql"),
)


def decode_json(reply: Reply) -> tuple[bool, Any]:
    """Return whether an answer is JSON, and its value."""
    bare = reply.media_type
    if reply.body and (bare.endswith(("/json", "+json")) or not bare):
        try:
            return True, parse(reply.body)
        except ParseError:
            return False, None
    return False, None


def list_value_events(value: Any, descriptor: Descriptor) -> Iterator[Event]:
    """List the events of a JSON value."""
    schema = descriptor.wire.get("outputSchema")
    if schema is None or (isinstance(value, dict) and not problems(validator(schema), value)):
        yield Data(value)
    else:
        yield Text(format_value(value))
        yield Data({}, text="")


def list_body_events(reply: Reply, descriptor: Descriptor) -> Iterator[Event]:
    """List the events of an answer that is not JSON."""
    if not reply.body:
        yield Text(describe_status(reply.status))
    elif _is_text(reply):
        yield Text(reply.body.decode(_get_charset(reply), "replace"))
    else:
        yield of_bytes(reply.body, reply.media_type or None)
    if "outputSchema" in descriptor.wire:
        yield Data({}, text="")


def describe_status(status: int) -> str:
    """Return a status with its reason, such as `404 Not Found`."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def describe_failure(reply: Reply, place: str) -> str:
    """Return the message of an error: where it came from, its status, and its body up to MAX_ERROR_CHARACTERS."""
    is_json, value = decode_json(reply)
    text = format_value(value) if is_json else reply.body.decode(_get_charset(reply), "replace").strip()
    if len(text) > MAX_ERROR_CHARACTERS:
        text = f"{text[:MAX_ERROR_CHARACTERS]}\n[... {len(reply.body)} bytes in all]"
    words = _find_words(value) if is_json else ""
    location = reply.headers.get("location", "") if 300 <= reply.status < 400 else ""
    if location:
        words = f"it redirects to {mask_url(location)}, which is not followed; nothing was done there"
    first = f"{place} answered {describe_status(reply.status)}{f': {words}' if words else ''}"
    return f"{first}\n{text}" if text and text != words else first


def _find_words(value: Any) -> str:
    problem = value if isinstance(value, Mapping) else {}
    found = next((problem[key] for key in ("detail", "message", "title", "error") if problem.get(key)), "")
    return found if isinstance(found, str) else ""


def _is_text(reply: Reply) -> bool:
    bare = reply.media_type
    return bare.startswith("text/") or bare.endswith(("/json", "+json", "+xml")) or bare in _TEXTS


def _get_charset(reply: Reply) -> str:
    for word in str(reply.headers.get("content-type", "")).split(";")[1:]:
        name, _, value = word.strip().partition("=")
        if name.lower() == "charset":
            try:
                "".encode(value.strip("\"' "))
            except LookupError:
                return "utf-8"
            return value.strip("\"' ")
    return "utf-8"


class StreamDecoder:
    """Decodes a stream of events or of lines, piece by piece, to texts."""

    def __init__(self, media_type: str) -> None:
        self._is_events = media_type == "text/event-stream"
        self._rest = b""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[str]:
        """Yield the texts that a piece completes: the data of events, or lines."""
        whole = self._rest + piece
        *lines, self._rest = whole.replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            yield from self._read_line(line.decode("utf-8", "replace"))

    def end(self) -> Iterator[str]:
        """Yield what is left at the end."""
        if self._rest:
            yield from self._read_line(self._rest.decode("utf-8", "replace"))
        if self._data:
            yield from self._read_line("")

    def _read_line(self, line: str) -> Iterator[str]:
        if not self._is_events:
            text = line.strip("\x1e \r")
            if text:
                yield f"{text}\n"
        elif line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))
        elif not line and self._data:
            data, self._data = "\n".join(self._data), []
            yield f"{data}\n"
