"""Converts the return value of a function to events.

Text stays text, bytes become an image, a sound or an embedded blob, MCP content blocks pass through, Viewer's
`{"output": ..., "content_type": ...}` follows its media type, and every other value becomes JSON. This file runs no
code of a tool and makes no requests: for content at another address it raises `Redirected`, and the handler follows.
Source: MCP specification, server/tools (content).
"""

from __future__ import annotations

import json
import math
import re
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

import orjson

from patchbay.cid import cid_of
from patchbay.errors import ToolFailed
from patchbay.events import Content, Data, Event, Text

Bytes = (bytes, bytearray, memoryview)
UNKNOWN = "application/octet-stream"
MEDIA_TYPE = re.compile(r"(?:application|audio|font|image|message|model|multipart|text|video)/[\w.+-]+(?:\s*;.*)?")

MAGIC = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
    (re.compile(rb"ID3|\xff[\xfb\xf3\xf2]"), "audio/mpeg"),
    (re.compile(rb"OggS"), "audio/ogg"),
)

MAX_MAGIC_BYTES = 12
BEGINNINGS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"ID3", b"\xff\xfb", b"OggS")

MAX_DEPTH = 254
"""The deepest nesting of a value, as orjson has it."""

MAX_INTEGER_BITS = 4096
"""The largest integer of a result: 1,233 digits. JSON has no limit; Python converts at most 4,300 digits."""

BLOCKS: Mapping[str, Mapping[str, Any]] = {
    "text": {"text": str},
    "image": {"data": (str, bytes), "mimeType": str},
    "audio": {"data": (str, bytes), "mimeType": str},
    "resource": {"resource": Mapping},
    "resource_link": {"uri": str, "name": str},
}
"""The content blocks of MCP and the required members of each."""


class Redirected(Exception):
    """A signal to the handler: the output is at `location`, a path of this hub or a URI."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


def events_of(value: Any) -> Iterator[Event]:
    """Yield the events of one return value; None has no events.

    Raises ToolFailed for a value without a JSON form and for a Viewer output with a status of 400 or more, Redirected
    for `{"redirect": ...}`. The handler itself unpacks iterators.
    """
    if value is None:
        return
    if isinstance(value, str) and not isinstance(value, Enum):
        yield Text(clean(value))
    elif isinstance(value, Bytes):
        yield of_bytes(bytes(value))
    elif isinstance(value, Data):
        yield _clean_data(value)
    elif (shown := block(value)) is not None:
        yield Content(shown)
    elif (parts := _blocks(value)) is not None:
        yield from parts
    elif (output := _viewer(value)) is not None:
        yield from _by_media_type(*output)
    else:
        yield of_json(value)


def _clean_data(event: Data) -> Data:
    """Return an author's event with its value in JSON form and its text clean. Raises ToolFailed."""
    value = of_json(event.value).value
    return Data(value, event.content_type, None if event.text is None else clean(event.text))


def clean(text: str) -> str:
    """Return text that UTF-8 can encode: surrogate pairs are joined, lone surrogates become U+FFFD."""
    if text.isascii():
        return str(text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def media_type_of(data: bytes) -> str | None:
    """Return the media type of an image or a sound by its first bytes; None for other content."""
    return next((kind for magic, kind in MAGIC if magic.match(data)), None)


def may_become_media(data: bytes) -> bool:
    """Whether these first bytes may still become an image or a sound when more bytes follow."""
    return len(data) < MAX_MAGIC_BYTES and any(full[: len(data)] == data[: len(full)] for full in BEGINNINGS)


def of_bytes(data: bytes, media_type: str | None = None) -> Content:
    """Return bytes as one content block: an image, a sound, or an embedded resource with its CID as the URI."""
    media_type = media_type or media_type_of(data) or UNKNOWN
    encoded = b64encode(data).decode("ascii")
    family = media_type.partition("/")[0]
    if family in ("image", "audio"):
        return Content({"type": family, "data": encoded, "mimeType": media_type})
    resource = {"uri": f"cid://{cid_of(data)}", "mimeType": media_type, "blob": encoded}
    return Content({"type": "resource", "resource": resource})


def of_json(value: Any, media_type: str | None = None) -> Data:
    """Return a value as Data. Raises ToolFailed."""
    return Data(json_value(value), media_type)


def json_value(value: Any) -> Any:
    """Return the JSON form of a value: plain dicts, lists, strings, numbers, booleans, None.

    Dates become ISO 8601, bytes base64, enumerations their value, sets lists, dataclasses and pydantic models objects.
    Integers stay exact. Raises ToolFailed.
    """
    try:
        dumped = _dump(value)
    except TypeError as problem:
        reason: BaseException = problem
        if "64-bit" in _reason(problem):
            try:
                return _exact_value(value, MAX_DEPTH)
            except TypeError as exact:
                reason = exact
        raise ToolFailed(f"the tool returned {_type_name(value)} that has no JSON form: {_reason(reason)}") from problem
    return orjson.loads(dumped)


def _exact_value(value: Any, depth: int) -> Any:
    """Return the JSON form of a value with integers beyond 64 bits, which orjson does not write. Raises TypeError."""
    if depth == 0:
        raise TypeError(f"it nests deeper than {MAX_DEPTH} levels")
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, int) and not isinstance(value, bool):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise TypeError(f"it contains an integer of more than {MAX_INTEGER_BITS} bits")
        return int(value)
    if isinstance(value, dict):
        _check_keys(value)
        return {_key(key): _exact_value(each, depth - 1) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exact_value(each, depth - 1) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        shown = [field.name for field in fields(value) if not field.name.startswith("_")]
        return {name: _exact_value(getattr(value, name), depth - 1) for name in shown}
    if not isinstance(value, Bytes) and (_is_model(value) or isinstance(value, (Mapping, Sequence, Set, ValuesView))):
        return value if isinstance(value, str) else _exact_value(_convert_type(value), depth - 1)
    return orjson.loads(_dump(value))


def _key(key: Any) -> str:
    """Return the name of a key in JSON."""
    if type(key) is str:
        return key
    if type(key) is int:
        return str(key)
    [name] = orjson.loads(orjson.dumps({key: None}, option=orjson.OPT_NON_STR_KEYS))
    return str(name)


def _dump(value: Any) -> bytes:
    """Return a value as JSON. Raises TypeError, also for NaN and equal keys, which orjson changes without an error."""
    try:
        dumped = orjson.dumps(value, default=_convert)
    except TypeError as problem:
        reason = str(problem.__cause__ or problem)
        if "tzinfo" in reason or "timezone" in reason:  # a time with an offset, or a timezone that orjson does not know
            dumped = orjson.dumps(
                value, default=_convert, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME
            )
        elif "Dict key must be str" in reason:
            dumped = orjson.dumps(value, default=_convert, option=orjson.OPT_NON_STR_KEYS)
        else:
            raise
        _check(value)
    if b"null" in dumped:  # orjson writes NaN as null
        _check(value)
    return dumped


def _check(value: Any) -> None:
    """Raise TypeError for NaN, for an infinite number, and for keys of one object that are equal in JSON."""
    for part in _parts(value):
        if isinstance(part, float) and not math.isfinite(part):
            raise TypeError("it contains NaN or an infinite number, which JSON does not have")
        if isinstance(part, dict) and not all(type(key) is str for key in part):
            _check_keys(part)


def _check_keys(value: dict[Any, Any]) -> None:
    seen: dict[str, Any] = {}
    for key in value:
        name = _key(key)
        if name in seen:
            raise TypeError(f"its keys {seen[name]!r:.80} and {key!r:.80} are both {name[:80]!r} in JSON")
        seen[name] = key


def _parts(value: Any) -> Iterator[Any]:
    """Yield a value and every value in it that orjson converts without help; `_convert` handles the others."""
    if isinstance(value, Enum):
        value = value.value
    yield value
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, (list, tuple)):
        inner = value
    elif is_dataclass(value) and not isinstance(value, type):
        inner = [getattr(value, field.name, None) for field in fields(value) if not field.name.startswith("_")]
    for each in inner:
        yield from _parts(each)


def _convert(value: Any) -> Any:
    """Convert a value of a type that orjson does not know, by one step towards JSON. Raises TypeError."""
    converted = _convert_type(value)
    _check(converted)
    return converted


def _convert_type(value: Any) -> Any:
    if isinstance(value, Bytes):
        return b64encode(value).decode("ascii")
    if _is_model(value):
        return value.model_dump(by_alias=True)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (Sequence, Set, ValuesView)):
        return list(value)
    if isinstance(value, PurePath):
        return str(value)
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value)
    except PydanticSerializationError as problem:
        raise TypeError(f"it contains a value of type {type(value).__name__}") from problem


def _is_model(value: Any) -> bool:
    """Whether a value is a model of pydantic. A program that has one has loaded the library."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)


def _type_name(value: Any) -> str:
    return f"a value of type {type(value).__name__}"


def _reason(problem: BaseException) -> str:
    """Return the message of the cause, because orjson wraps the error of `_convert`."""
    return str(problem.__cause__ or problem)


def block(value: Any) -> dict[str, Any] | None:
    """Return an MCP content block as a JSON object, from a dict or a content model of `mcp_types`; or None.

    `data` and `blob` may be bytes; this function encodes them.
    """
    if isinstance(getattr(value, "type", None), str) and _is_model(value):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if not isinstance(value, Mapping):
        return None
    kind = value.get("type")
    needs = BLOCKS.get(kind) if isinstance(kind, str) else None
    if needs is None or not all(isinstance(value.get(name), types) for name, types in needs.items()):
        return None
    if kind == "resource" and not _is_embedded(value["resource"]):
        return None
    found: dict[str, Any] = json_value(value)
    return found


def _is_embedded(resource: Mapping[str, Any]) -> bool:
    content = isinstance(resource.get("text"), str) or isinstance(resource.get("blob"), (str, bytes))
    return content and isinstance(resource.get("uri"), str)


def _blocks(value: Any) -> list[Event] | None:
    """Return a content block for each item of a list of blocks, bytes and strings; None for a list of only strings."""
    if not isinstance(value, (list, tuple)) or all(isinstance(item, str) for item in value):
        return None
    if _is_pair(value):
        return None
    found: list[Event] = []
    for item in value:
        if isinstance(item, str):
            found.append(Content({"type": "text", "text": clean(item)}))
        elif isinstance(item, Bytes):
            found.append(of_bytes(bytes(item)))
        elif (shown := block(item)) is not None:
            found.append(Content(shown))
        else:
            return None
    return found


def _is_pair(value: Any) -> bool:
    """Whether this is Viewer's `(output, content_type)`."""
    return isinstance(value, tuple) and len(value) == 2 and _is_media_type(value[1])


def _is_media_type(value: Any) -> bool:
    return isinstance(value, str) and MEDIA_TYPE.fullmatch(value) is not None


def _viewer(value: Any) -> tuple[Any, str, int] | None:
    """Return (output, content type, status) of a Viewer output; None for other values. Raises Redirected."""
    if _is_pair(value):
        return value[0], value[1], 200
    if not isinstance(value, dict) or not value.keys() <= {"output", "content_type", "status", "redirect"}:
        return None
    location = value.get("redirect")
    if isinstance(location, str) and re.match(r"/|[a-z][a-z0-9+.-]*://", location):
        raise Redirected(location)
    if "output" not in value or not _is_media_type(value.get("content_type")):
        return None
    status = value.get("status", 200)
    return value["output"], value["content_type"], status if isinstance(status, int) else 200


def _by_media_type(output: Any, content_type: str, status: int) -> Iterator[Event]:
    media_type = content_type.partition(";")[0].strip().lower()
    if status >= 400:
        raise ToolFailed(_as_text(output) or f"the tool answered with status {status}", {"status": status})
    if output is None:
        return
    if _is_numbers(output) and not _is_textual(media_type):
        output = bytes(output)
    if not isinstance(output, (str, *Bytes)):
        yield of_json(output, media_type)
    elif isinstance(output, str):
        yield Text(clean(output)) if _is_textual(media_type) else of_bytes(clean(output).encode(), media_type)
    else:
        yield _of_typed_bytes(bytes(output), media_type)


def _of_typed_bytes(data: bytes, media_type: str) -> Event:
    if _is_textual(media_type):
        try:
            return Text(data.decode("utf-8"))
        except UnicodeDecodeError:  # the media type is wrong: pass all bytes on unchanged
            return of_bytes(data, media_type)
    return of_bytes(data, media_type)


def _is_textual(media_type: str) -> bool:
    return media_type.startswith("text/") or media_type == "application/json" or media_type.endswith(("+json", "+xml"))


def _is_numbers(value: Any) -> bool:
    """Whether this is a list of byte values, the second form of bytes in Viewer."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 256 for item in value)


def _as_text(output: Any) -> str:
    if isinstance(output, Bytes):
        return bytes(output).decode("utf-8", "replace")
    if output is None or isinstance(output, str):
        return clean(output or "")
    return json.dumps(of_json(output).value, ensure_ascii=False)
