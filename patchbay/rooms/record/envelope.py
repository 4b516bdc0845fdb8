"""Envelopes: the form of all messages in a room, parsed strictly and within limits.

An envelope has `id` (UUID), `ts` (ISO 8601), `room`, `from`, `kind` (`event` or `stream`), `type`, `payload`, and
optionally `seq`, `rel` (`replyTo`, `parents`) and `sig`. Bytes inside a payload are `{"__enso_binary__": "<base64>"}`.
Source: ENSO-1 as `octave-commons/promethean`, packages/enso-protocol publishes it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import orjson

from patchbay.rooms.record.canonical import canonical_bytes
from patchbay.rooms.record.errors import BadFrame

MAX_DEPTH = 32
"""Depth of nested objects and arrays in one envelope."""

MAX_VALUES = 50_000
"""Values (objects, arrays, members) in one envelope."""

MAX_TYPE_CHARACTERS = 64
MAX_PARENTS = 16
MAX_SAFE_INTEGER = 2**53 - 1

HUB = "hub"
"""The sender of envelopes of the hub itself."""

UNNAMED_SENDER = "enso-client"
"""The `from` of the reference client; it stands for the session that sends."""

UNNAMED_ROOMS = frozenset({"local", "voice"})
"""The `room` of the reference client; it stands for the room of the session."""

BINARY = "__enso_binary__"
CONTENT_CID, CONTENT_BYTES = "__enso_cid__", "__enso_bytes__"
WITHHELD, PASSING = "__enso_withheld__", "__enso_passing__"
MARKS = frozenset({CONTENT_CID, CONTENT_BYTES, WITHHELD, PASSING})
"""Keys that the hub puts in place of contents; no participant may send them."""

TYPE = re.compile(r"[a-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
FIELDS = frozenset({"id", "ts", "room", "from", "kind", "type", "payload", "seq", "rel", "sig"})

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of the WebSocket: `hello`, `envelope`, `ping` or `pong`. `payload` is the object of the first two."""

    type: str
    payload: Json
    ts: Any = None


def parse_frame(text: str | bytes, limit: int) -> Frame:
    """Read one text frame of a WebSocket of at most `limit` bytes. Raises BadFrame."""
    found = parse_json(text, limit)
    kind = found.get("type")
    if kind in ("ping", "pong"):
        return Frame(kind, {}, found.get("ts"))
    if kind not in ("hello", "envelope"):
        raise BadFrame(f"a frame has the type {kind!r:.40}; expected hello, envelope, ping or pong")
    payload = found.get("payload")
    if not isinstance(payload, dict):
        raise BadFrame(f"a frame of the type {kind} has no payload; expected an object")
    return Frame(kind, payload)


def frame_bytes(envelope: bytes, seq: int | None = None) -> bytes:
    """Return the WebSocket frame around an envelope that is JSON already; `seq` is its place in the room's log."""
    place = b"" if seq is None else b',"seq":%d' % seq
    return b'{"type":"envelope","payload":%b%b}' % (envelope, place)


def pong_bytes(ts: Any) -> bytes:
    """Return the frame that answers a ping."""
    return orjson.dumps({"type": "pong", "ts": ts})


def parse_json(text: str | bytes, limit: int) -> Json:
    """Read a JSON object of at most `limit` bytes, within the bounds of depth and number. Raises BadFrame."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > limit:
        raise BadFrame(f"the message has {len(data)} bytes; expected at most {limit} (--room-envelope-limit)")
    try:
        found = orjson.loads(data)
    except (orjson.JSONDecodeError, RecursionError) as problem:
        raise BadFrame(f"the message is not JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise BadFrame(f"the message is JSON of the type {type(found).__name__}; expected an object")
    check_bounds(found)
    return found


def check_bounds(value: Any) -> None:
    """Raise BadFrame for too deep nesting, too many values, or a number that is not exact."""
    level, count = [value], 1
    for _ in range(MAX_DEPTH + 1):
        level = [inner for outer in level for inner in _inner(outer)]
        count += len(level)
        if not level:
            return
        if count > MAX_VALUES:
            raise BadFrame(f"the message has more than {MAX_VALUES} values")
    raise BadFrame(f"the message nests more than {MAX_DEPTH} objects and arrays")


def _inner(value: Any) -> list[Any]:
    if isinstance(value, dict):
        if BINARY in value:
            _check_binary(value)
        if not MARKS.isdisjoint(value):
            raise BadFrame(f"the message has one of the keys {', '.join(sorted(MARKS))}, which only the hub may write")
        return list(value.values())
    if isinstance(value, list):
        return value
    if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
        raise BadFrame(f"the number {value} is not exact as a double; expected at most 2^53 - 1")
    return []


def _check_binary(value: Mapping[str, Any]) -> None:
    try:
        if set(value) != {BINARY}:
            raise ValueError("it stands beside other keys")
        b64decode(value[BINARY], validate=True)
    except (Base64Error, ValueError, TypeError) as problem:
        raise BadFrame(f"bytes in {BINARY} are not base64: {problem}") from problem


def check_named(found: Mapping[str, Any]) -> None:
    """Raise BadFrame for a value without the id and the type of an envelope, by which a refusal could name it."""
    _check_id(found.get("id"))
    _check_type(found.get("type"))


def read_envelope(found: Mapping[str, Any], limit: int) -> tuple[Json, int]:
    """Check an envelope that a participant sent; return it without absent optional fields, and its bytes.

    `limit` is the maximum of bytes of its canonical JSON. Its session and room are checked elsewhere. Raises BadFrame.
    """
    check_bounds(dict(found))
    unknown = sorted(set(found) - FIELDS)
    if unknown:
        raise BadFrame(f"the envelope has the unknown field {unknown[0]!r:.40}; expected {', '.join(sorted(FIELDS))}")
    envelope = {key: value for key, value in found.items() if value is not None}
    _check_id(envelope.get("id"))
    _check_time(envelope.get("ts"))
    for key in ("room", "from"):
        if not isinstance(envelope.get(key, ""), str):
            raise BadFrame(f"the envelope's {key} is not a string")
    if envelope.get("kind") not in ("event", "stream"):
        raise BadFrame(f"the envelope's kind is {envelope.get('kind')!r:.40}; expected event or stream")
    _check_type(envelope.get("type"))
    if not isinstance(envelope.get("payload"), dict):
        raise BadFrame("the envelope has no payload; expected an object")
    if "seq" in envelope and not _is_count(envelope["seq"]):
        raise BadFrame(f"the envelope's seq is {envelope['seq']!r:.40}; expected a whole number, 0 or more")
    if "sig" in envelope and not isinstance(envelope["sig"], str):
        raise BadFrame("the envelope's sig is not a string; expected an Ed25519 signature in base64")
    _check_relations(envelope.get("rel", {}))
    size = len(canonical_bytes(envelope))
    if size > limit:
        raise BadFrame(f"the envelope has {size} bytes; expected at most {limit} (--room-envelope-limit)")
    return envelope, size


def _check_id(value: Any) -> None:
    try:
        is_uuid = isinstance(value, str) and str(UUID(value)) == value.lower()
    except ValueError:
        is_uuid = False
    if not is_uuid:
        raise BadFrame(f"the envelope's id is {value!r:.80}; expected a UUID")


def _check_type(value: Any) -> None:
    if not isinstance(value, str) or len(value) > MAX_TYPE_CHARACTERS or not TYPE.fullmatch(value):
        raise BadFrame(f"the envelope's type is {value!r:.80}; expected a name such as tool.call")


def _check_time(value: Any) -> None:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError) as problem:
        raise BadFrame(f"the envelope's ts is {value!r:.80}; expected a time as ISO 8601 writes it") from problem


def _check_relations(rel: Any) -> None:
    if not isinstance(rel, dict) or set(rel) - {"replyTo", "parents"}:
        raise BadFrame("the envelope's rel is not an object of replyTo and parents")
    parents = rel.get("parents", [])
    texts = [*parents, rel.get("replyTo", "")] if isinstance(parents, list) else [None]
    if len(texts) > MAX_PARENTS + 1 or not all(isinstance(one, str) for one in texts):
        raise BadFrame(f"the envelope's rel names something that is not an id, or more than {MAX_PARENTS} parents")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def now_text(milliseconds: int) -> str:
    """Return a moment (Unix time in milliseconds) as ISO 8601 in UTC."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def hub_envelope(room: str, type: str, payload: Json, at: int, rel: Json | None = None, kind: str = "event") -> Json:
    """Return an envelope that the hub itself sends. `at` is Unix time in milliseconds."""
    made: Json = {"id": str(uuid4()), "ts": now_text(at), "room": room, "from": HUB, "kind": kind, "type": type}
    return made | ({"rel": rel} if rel else {}) | {"payload": payload}
