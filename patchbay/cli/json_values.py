"""JSON values out of a stream of bytes, as jq reads them: one per line, several on a line, or one over many lines.

A line that is whole is given as soon as it is here. What cannot be read is told as an error record with its line, and
reading goes on at the next line; those that were looked at already are then taken one by one, so that it never takes
more than a few looks at each. Sources: JN-38, J-F7, J-F10; RFC 8259; the NDJSON specification.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import IO, Any

from patchbay.errors import ParseError
from patchbay.jsonrpc import parse

MAX_VALUE_BYTES = 32 * 1024 * 1024
"""Bytes of one value."""

SHOWN = 100
"""How much of a bad line stands in its error record."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?')
"""A string, or the beginning of one that the line does not end: each byte is looked at once, whatever comes."""

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def read_values(stream: IO[bytes], bad: Callable[[dict[str, Any]], None], objects: bool = False) -> Iterator[Any]:
    """The values; blank lines are skipped.

    `bad` is given an error record for what is none, or, with `objects`, for anything but an object.
    """
    lines = _Lines(stream)
    while text := lines.next():
        number = lines.number
        if not text.strip():
            continue
        try:
            values = _values(text, lines)
            if objects and not all(isinstance(value, dict) for value in values):
                raise ParseError("expected a JSON object")
        except ParseError as problem:
            shown = text[: 4 * SHOWN].decode("utf-8", "replace").rstrip("\n")[:SHOWN]
            bad(
                {
                    "_error": True,
                    "type": "json_decode_error",
                    "message": f"line {number}: {problem.message}",
                    "line": shown,
                }
            )
            continue
        yield from values


class _Lines:
    """The lines of a stream, some of which may be put back.

    `number` is that of the last one given, `again` says whether that one had been put back.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.number = 0
        self.again = False
        self._stream = stream
        self._back: deque[bytes] = deque()

    def next(self) -> bytes:
        """The next line, at most one byte more than the limit; nothing at the end."""
        self.again = bool(self._back)
        text = self._back.popleft() if self.again else self._stream.readline(MAX_VALUE_BYTES + 1)
        self.number += bool(text)
        return text

    def put_back(self, lines: list[bytes]) -> None:
        """Have these lines come again."""
        self._back.extendleft(reversed(lines))
        self.number -= len(lines)

    def skip(self, text: bytes) -> None:
        """Leave out the rest of a line that is too long."""
        while text and not text.endswith(b"\n"):
            text = self._stream.readline(MAX_VALUE_BYTES)


def _values(first: bytes, lines: _Lines) -> list[Any]:
    """The values that begin on a line. Raises ParseError; then the lines after it were not touched."""
    if len(first) > MAX_VALUE_BYTES:
        lines.skip(first)
        raise ParseError(f"longer than {MAX_VALUE_BYTES} bytes")
    try:
        return [parse(first)]
    except ParseError as problem:
        whole, said, alone = [first], problem, lines.again
    depth, size, tried = _depth(first), len(first), 0
    while size <= MAX_VALUE_BYTES:
        # Trying at every line would take the square of the time; where brackets are even, a value may end.
        if depth <= 0 or size >= 2 * tried:
            tried = size
            try:
                found = _sequence(b"".join(whole))
            except ParseError as problem:
                lines.put_back(whole[1:])
                raise said from problem
            if found is not None:
                return found
        more = b"" if alone else lines.next()
        if not more:
            lines.put_back(whole[1:])
            raise said
        whole.append(more)
        depth, size = depth + _depth(more), size + len(more)
    lines.skip(whole[-1])
    raise ParseError(f"longer than {MAX_VALUE_BYTES} bytes")


def _depth(line: bytes) -> int:
    """How many more brackets a line opens than it closes."""
    bare = _STRING.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


def _sequence(data: bytes) -> list[Any] | None:
    """All the values of some lines; None when the last one goes on. Raises ParseError."""
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        raise ParseError(f"expected UTF-8; {problem}") from problem
    end, values = len(text.rstrip()), []
    place = _SPACE.match(text).end()  # type: ignore[union-attr]  # matches everywhere
    while place < end:
        try:
            _, after = _DECODER.raw_decode(text, place)
        except json.JSONDecodeError as problem:
            # Where the text ends inside a string it does not go on: a string has no line breaks.
            if problem.pos >= end and problem.msg.startswith("Expecting"):
                return None
            raise ParseError(f"not JSON: {problem.msg}") from problem
        except (RecursionError, ValueError) as problem:
            raise ParseError(f"not JSON: {problem}") from problem
        values.append(parse(text[place:after].encode()))
        place = _SPACE.match(text, after).end()  # type: ignore[union-attr]
    return values
