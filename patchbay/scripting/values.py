"""Values between scripts and tools: JSON both ways."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from datetime import time as time_of_day
from typing import Any

import orjson

from patchbay.errors import ToolFailed
from patchbay.outputs.conversion import MAX_DEPTH, MAX_INTEGER_BITS, clean

VALUE_BYTES = 32
"""Bytes that each value counts besides its text: what a list or a number takes in the memory of the hub."""


def plain_value(value: Any, take_bytes: Callable[[int], None], depth: int = 0) -> Any:
    """Return a value of a script as JSON: tuples and sets become lists, times become texts of ISO 8601.

    `take_bytes` counts the bytes of each value before it is copied, and raises where they are too many: a list of a
    script may hold the same list many times, and its copy holds a list for each of these.

    Raises ToolFailed for a value that has no such form, and what `take_bytes` raises.
    """
    take_bytes(VALUE_BYTES + _text_bytes(value))
    if depth > MAX_DEPTH:
        raise ToolFailed(f"it nests more than {MAX_DEPTH} values in each other")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise ToolFailed(f"it has an integer of more than {MAX_INTEGER_BITS} bits")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ToolFailed(f"it has the number {value}, which JSON cannot say")
        return value
    if isinstance(value, Mapping):
        return {_key(key, take_bytes): plain_value(one, take_bytes, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_value(one, take_bytes, depth + 1) for one in value]
    if isinstance(value, datetime | date | time_of_day):
        return value.isoformat()
    raise ToolFailed(f"it has a value of the type {type(value).__name__}, which JSON cannot say")


def compact_json(value: Any) -> str:
    """Return a value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def size_of(value: Any) -> int:
    """Return the bytes of a value as JSON."""
    try:
        return len(orjson.dumps(value))
    except TypeError:  # an integer beyond 64 bits, or a value that nests deeply
        return len(compact_json(value))


def value_of(result: Mapping[str, Any], is_wrapped: bool) -> Any:
    """Return what a script gets for the result of a tool: its structured content, else its text, else its blocks.

    `is_wrapped` says that the structured content has the value as its member `result`.
    """
    if "structuredContent" in result:
        found = result["structuredContent"]
        return found["result"] if is_wrapped and isinstance(found, Mapping) and "result" in found else found
    content = result.get("content", [])
    if all(one.get("type") == "text" for one in content):
        return text_of(result)
    return content


def text_of(result: Mapping[str, Any]) -> str:
    """Return the text of a result."""
    return "\n".join(str(one.get("text", "")) for one in result.get("content", []) if one.get("type") == "text")


def _text_bytes(value: Any) -> int:
    """Return about how many bytes the text of a value takes."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    return value.bit_length() // 8 if isinstance(value, int) else 0


def _key(key: Any, take_bytes: Callable[[int], None]) -> str:
    take_bytes(VALUE_BYTES + _text_bytes(key))
    if isinstance(key, str):
        return clean(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise ToolFailed(f"it has a key of the type {type(key).__name__}; the keys of JSON are texts")
