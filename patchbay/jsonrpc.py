"""JSON-RPC 2.0 messages: strict bytes in, frozen messages out, compact bytes back.

An Exchange is a server seen from the wire: a message goes in, messages come out. Two signals may come between them:
a Pause (the call still runs) and a Detach (the caller may disconnect and fetch the result later).
This file knows no method and no transport.
Source: https://www.jsonrpc.org/specification.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.errors import InvalidParams, InvalidRequest, ParseError, PatchbayError
from patchbay.events import Detach, Pause, Wait

MAX_DEPTH = 128
"""Limit on the nesting of arrays and objects in one message."""

MAX_PLAIN_BYTES = 16 * 1024
"""Bytes of a message up to which orjson is tried first; it takes a tenth of the time."""

Id = str | int


@dataclass(frozen=True, slots=True)
class Request:
    """A method call that expects an answer. `params` is a JSON object (MCP has no positional parameters)."""

    id: Id
    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that expects no answer."""

    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A JSON object that is already encoded."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a request.

    `retry_after` is set when a quota refused the call: the seconds to wait. `promised` is False for the result of a
    tool without an `outputSchema`, which is valid without its structured content.
    """

    id: Id
    result: Mapping[str, Any] | Rendered
    retry_after: int | None = None
    promised: bool = True


@dataclass(frozen=True, slots=True)
class Failure:
    """An error answer; `error` is `{code, message, data?}` and `status` the HTTP status for it.

    `retry_after` is set when a quota, or a mounted server, refused the request: the seconds to wait.
    """

    id: Id | None
    error: Mapping[str, Any]
    status: int = 200
    retry_after: int | None = None


Message = Request | Notification | Result | Failure
Sign = Pause | Detach | Wait
"""What stands between messages; a Wait only where the transport waits by itself (`TransportInfo.waits`)."""

Exchange = Callable[[Message], Iterator[Message | Sign]]


def failure(id: Id | None, problem: PatchbayError) -> Failure:
    """Return the error answer for a problem."""
    error: dict[str, Any] = {"code": problem.code, "message": problem.message}
    if problem.data is not None:
        error["data"] = problem.data
    return Failure(id, error, problem.status, problem.retry_after)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite)


def parse(data: bytes) -> Any:
    """Return the JSON value of strict UTF-8 bytes: no NaN, no duplicate keys, no lone surrogates, bounded depth.

    Raises ParseError with the place of the problem.
    """
    value = _parse_plain(data)
    if value is not None:
        return value
    try:
        value = _DECODER.decode(data.decode("utf-8"))
        dump_json(value)  # it refuses lone surrogates and depth above 254
    except UnicodeDecodeError as problem:
        raise ParseError(f"the body is not UTF-8: byte {problem.start}") from problem
    except RecursionError as problem:
        raise ParseError(f"the body nests deeper than {MAX_DEPTH} levels") from problem
    except (ValueError, TypeError) as problem:
        raise ParseError(f"the body is not JSON: {problem}") from problem
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise ParseError(f"the body nests deeper than {MAX_DEPTH} levels")
    return value


_LARGE_INTEGER = re.compile(rb"\d{19}")


def dump_json(value: Any, is_sorted: bool = False) -> bytes:
    """Return a JSON value as compact JSON in UTF-8, integers of any size exactly; with sorted keys on demand.

    Raises TypeError for a value without a JSON form, ValueError for a lone surrogate and for an integer of more digits
    than Python converts (`sys.get_int_max_str_digits`).
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if is_sorted else 0)
    except TypeError as problem:
        if "64-bit" not in str(problem):
            raise
    # orjson has no way to write these numbers.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=is_sorted, separators=(",", ":")).encode()


def load_json(data: bytes) -> Any:
    """Return the JSON value of trusted bytes; integers beyond 64 bits stay exact, of which orjson makes floats.

    Raises ValueError.
    """
    return json.loads(data) if _LARGE_INTEGER.search(data) else orjson.loads(data)


def parse_file(data: bytes) -> Any:
    """Return the JSON value of a file as `parse` does, also of one that begins with a byte order mark.

    Raises ParseError.
    """
    return parse(without_mark(data))


def parse_object(data: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a file as `parse_file` does; None for any other content."""
    try:
        value = parse_file(data)
    except ParseError:
        return None
    return value if isinstance(value, dict) else None


_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Byte order marks and their encodings. UTF-32 is first, because one of its marks begins as one of UTF-16 does."""


def without_mark(data: bytes) -> bytes:
    """Return the bytes of a text file in UTF-8 without a byte order mark. Bytes without a mark stay as they are.

    Editors of Windows write the mark of UTF-8, and PowerShell 5 writes UTF-16 with a mark; RFC 8259 section 8.1 allows
    to ignore a mark. Raises ParseError for bytes that are not in the encoding of their mark.
    """
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            rest = data[len(mark) :]
            try:
                return rest if encoding == "utf-8" else rest.decode(encoding).encode("utf-8")
            except UnicodeError as problem:
                raise ParseError(
                    f"the file begins with the byte order mark of {encoding.upper()} and is not {encoding.upper()}: "
                    "save it as UTF-8"
                ) from problem
    return data


def _parse_plain(data: bytes) -> dict[str, Any] | None:
    """The object in `data`, where orjson alone shows that `parse` gives the same; None where it cannot show that.

    orjson keeps the last of two equal keys and makes a float of a large integer. So there are no floats here, and as
    many keys as `data` has colons: a key that stands twice would leave more colons than keys.
    """
    if len(data) > MAX_PLAIN_BYTES:
        return None
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if type(value) is not dict:
        return None
    keys, level = 0, [value]
    for inner in level:  # grows while it is read
        if type(inner) is dict:
            keys += len(inner)
        for item in inner.values() if type(inner) is dict else inner:
            kind = type(item)
            if kind is dict or kind is list:
                level.append(item)
            elif kind is float:
                return None
    return value if keys == data.count(b":") and len(level) <= MAX_DEPTH else None


def _depth(value: Any) -> int:
    level, deepest = [value] if isinstance(value, (dict, list)) else [], 0
    while level:
        deepest += 1
        inner = [item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer)]
        level = [item for item in inner if isinstance(item, (dict, list))]
    return deepest


def readable_id(value: Any) -> Id | None:
    """Return the id of a message that may be malformed; None unless JSON-RPC allows the id."""
    id = value.get("id") if isinstance(value, dict) else None
    return id if type(id) is int or type(id) is str else None


def message(value: Any) -> Message:
    """Return the message of one parsed JSON value. Raises InvalidRequest, or InvalidParams for an array of params."""
    if not isinstance(value, dict):
        raise InvalidRequest(f"a message is a JSON object; this is {_kind(value)}")
    if value.get("jsonrpc") != "2.0":
        raise InvalidRequest(f'"jsonrpc" has to be "2.0"; it is {value.get("jsonrpc")!r}')
    id = readable_id(value)
    if "id" in value and id is None and "error" not in value:
        raise InvalidRequest('"id" has to be a string or an integer')
    if "method" in value:
        return _call(value, id)
    if id is not None and isinstance(value.get("result"), dict) and "error" not in value:
        return Result(id, value["result"])
    error = value.get("error")
    if "result" not in value and isinstance(error, dict) and isinstance(error.get("code"), int):
        return Failure(id, error)
    raise InvalidRequest('a message needs "method", or "id" with "result" or "error"')


def _call(value: dict[str, Any], id: Id | None) -> Request | Notification:
    method, params = value["method"], value.get("params", {})
    if not isinstance(method, str) or not method:
        raise InvalidRequest('"method" has to be a non-empty string')
    if params is None:
        params = {}
    if isinstance(params, list) and id is not None:
        # JSON-RPC allows an array; no method of MCP takes one.
        raise InvalidParams('"params" has to be an object with named members; it is an array')
    if not isinstance(params, dict):
        raise InvalidRequest(f'"params" has to be an object; it is {_kind(params)}')
    return Notification(method, params) if id is None else Request(id, method, params)


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), "an object")


def encode(message: Message) -> bytes:
    """Return one message as one line of compact JSON."""
    body: dict[str, Any]
    if isinstance(message, Result):
        if isinstance(message.result, Rendered):
            return b'{"jsonrpc":"2.0","id":' + dump_json(message.id) + b',"result":' + message.result.data + b"}"
        body = {"jsonrpc": "2.0", "id": message.id, "result": message.result}
    elif isinstance(message, Request):
        body = {"jsonrpc": "2.0", "id": message.id, "method": message.method, "params": message.params}
    elif isinstance(message, Notification):
        body = {"jsonrpc": "2.0", "method": message.method} | ({"params": message.params} if message.params else {})
    else:
        body = {"jsonrpc": "2.0", "id": message.id, "error": message.error}
    try:
        return orjson.dumps(body)
    except TypeError:
        # A tool may return a lone surrogate or an integer beyond 64 bits, which orjson refuses.
        return json.dumps(_encodable(body), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_encodable(str(key)): _encodable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(inner) for inner in value]
    return value
