"""Reads a line that a program meant as a message, although it is not valid JSON-RPC.

A call whose answer is dropped waits until its deadline. So an answer is mended where its meaning is clear: half a
surrogate pair and bytes that are not UTF-8 become U+FFFD, as in the texts of the hub's own tools; NaN and infinities
become null; `jsonrpc` may be missing; an error may be a text; an array has several answers. An answer that cannot be
mended is an error at once, which shows the line.
Source: JSON-RPC 2.0, section 5; RFC 8259, sections 8.1 and 8.2.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, cast

MAX_ANSWERS = 100
"""Answers of one array that are read."""

MAX_TOKENS = 200_000
"""Strings and brackets of a line that are read for its id."""

MAX_LINE_CHARACTERS = 500
"""Characters of a line that an error shows."""

INTERNAL_ERROR = -32603
HALF_PAIR = re.compile("[\ud800-\udfff]")
TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}\[\]]', re.DOTALL)
"""A string, also one without an end, or a bracket."""

ID = re.compile(rb'\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*[,}]')
"""What follows the name `id` of an id that can be read."""

NAME_END = re.compile(rb"\s*:")
OPENED_BY = {b"}": b"{", b"]": b"["}


def read_unusual(line: bytes) -> list[bytes]:
    """Return the messages of a line that is not one as it stands, as JSON-RPC; none for output of another kind."""
    text = line.decode("utf-8", "replace")
    try:
        value = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        id = _find_id(line)
        return [] if id is None else [_write(_make_error(id, text))]
    parts = value if isinstance(value, list) else [value]
    return [_write(mended) for one in parts[:MAX_ANSWERS] if (mended := _mend(one, text)) is not None]


def _find_id(line: bytes) -> int | str | None:
    """Return the id of a line that looks like an answer, which is that of its outermost object.

    None for another line, without an id there or with several ones, and where the brackets before it do not fit.
    """
    opened: list[bytes] = []
    ids: set[bytes | None] = set()
    is_answer = False
    for token in islice(TOKEN.finditer(line), MAX_TOKENS if line.lstrip().startswith(b"{") else 0):
        text = token[0]
        if text in OPENED_BY.values():
            opened.append(text)
        elif text in OPENED_BY:
            if opened.pop() != OPENED_BY[text] or not opened:
                break
        elif len(opened) == 1 and NAME_END.match(line, token.end()):
            is_answer = is_answer or text in (b'"result"', b'"error"')
            if text == b'"id"':
                found = ID.match(line, token.end())
                ids.add(None if found is None else found[1])
    only = ids.pop() if is_answer and len(ids) == 1 else None
    try:
        return None if only is None else cast("int | str", json.loads(only))
    except ValueError:
        return None


def _mend(value: Any, line: str) -> dict[str, Any] | None:
    """Return a message in the form of JSON-RPC, None for a value that is no message."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("method"), str) and value.get("jsonrpc") == "2.0":
        return value
    id, error = value.get("id"), value.get("error")
    if not isinstance(id, (int, str)) or isinstance(id, bool) or not ("result" in value or "error" in value):
        return None
    if isinstance(value.get("result"), dict) and error is None:
        return {"jsonrpc": "2.0", "id": id, "result": value["result"]}
    if isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str):
        return {"jsonrpc": "2.0", "id": id, "error": error}
    if isinstance(error, str):
        return {"jsonrpc": "2.0", "id": id, "error": {"code": INTERNAL_ERROR, "message": error}}
    return _make_error(id, line)


def _make_error(id: int | str, line: str) -> dict[str, Any]:
    words = f"the server's answer is not a JSON-RPC message: {line.strip()[:MAX_LINE_CHARACTERS]}"
    return {"jsonrpc": "2.0", "id": id, "error": {"code": INTERNAL_ERROR, "message": words}}


def _write(message: dict[str, Any]) -> bytes:
    return HALF_PAIR.sub("\ufffd", json.dumps(message, ensure_ascii=False)).encode()
