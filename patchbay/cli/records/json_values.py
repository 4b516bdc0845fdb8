"""Read JSON values from a stream of bytes, like jq: one per line, several on a line, or one over many lines.

A complete line is returned at once. Invalid JSON gives an error record with its line, and reading continues at the next
line. After an error, lines that were read ahead are read again one by one, so each line is parsed a few times at most.
Sources: RFC 8259; the NDJSON specification.
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
"""Bytes of one value, at most."""

MAX_SHOWN_CHARACTERS = 100
"""Characters of a bad line in its error record, at most."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?')
"""A complete or unfinished JSON string. The possessive quantifiers read each byte once."""

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def read_values(stream: IO[bytes], bad: Callable[[dict[str, Any]], None], objects: bool = False) -> Iterator[Any]:
    """Read the values of a stream; skip blank lines.

    `bad` gets an error record for invalid JSON and, with `objects`, for values that are not objects.
    """
    lines = _Lines(stream)
    while text := lines.next():
        number = lines.number
        if not text.strip():
            continue
        try:
            values = _read_values_at(text, lines)
            if objects and not all(isinstance(value, dict) for value in values):
                raise ParseError("expected a JSON object")
        except ParseError as problem:
            shown = text[: 4 * MAX_SHOWN_CHARACTERS].decode("utf-8", "replace").rstrip("\n")[:MAX_SHOWN_CHARACTERS]
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
    """The lines of a stream, with the option to put lines back.

    `number` is the number of the last line. `again` is True when that line had been put back.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.number = 0
        self.again = False
        self._stream = stream
        self._back: deque[bytes] = deque()

    def next(self) -> bytes:
        """Read the next line, up to one byte above the limit; empty at the end."""
        self.again = bool(self._back)
        text = self._back.popleft() if self.again else self._stream.readline(MAX_VALUE_BYTES + 1)
        self.number += bool(text)
        return text

    def put_back(self, lines: list[bytes]) -> None:
        """Return these lines again from the next reads."""
        self._back.extendleft(reversed(lines))
        self.number -= len(lines)

    def skip(self, text: bytes) -> None:
        """Skip the rest of a line that is too long."""
        while text and not text.endswith(b"\n"):
            text = self._stream.readline(MAX_VALUE_BYTES)


def _read_values_at(first: bytes, lines: _Lines) -> list[Any]:
    """Read the values that begin on a line. Raises ParseError, after putting later lines back."""
    if len(first) > MAX_VALUE_BYTES:
        lines.skip(first)
        raise ParseError(f"longer than {MAX_VALUE_BYTES} bytes")
    try:
        return [parse(first)]
    except ParseError as problem:
        whole, first_error, alone = [first], problem, lines.again
    depth, size, tried = _bracket_depth(first), len(first), 0
    while size <= MAX_VALUE_BYTES:
        # Parsing after every line would take quadratic time. A value can end only where the brackets balance.
        if depth <= 0 or size >= 2 * tried:
            tried = size
            try:
                found = _parse_values(b"".join(whole))
            except ParseError as problem:
                lines.put_back(whole[1:])
                raise first_error from problem
            if found is not None:
                return found
        more = b"" if alone else lines.next()
        if not more:
            lines.put_back(whole[1:])
            raise first_error
        whole.append(more)
        depth, size = depth + _bracket_depth(more), size + len(more)
    lines.skip(whole[-1])
    raise ParseError(f"longer than {MAX_VALUE_BYTES} bytes")


def _bracket_depth(line: bytes) -> int:
    """The number of opening brackets minus the number of closing brackets outside strings."""
    bare = _STRING.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


def _parse_values(data: bytes) -> list[Any] | None:
    """Parse all values of some lines; None when the last value is incomplete. Raises ParseError."""
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
            # A string cannot continue on the next line; other values can.
            if problem.pos >= end and problem.msg.startswith("Expecting"):
                return None
            raise ParseError(f"not JSON: {problem.msg}") from problem
        except (RecursionError, ValueError) as problem:
            raise ParseError(f"not JSON: {problem}") from problem
        values.append(parse(text[place:after].encode()))
        place = _SPACE.match(text, after).end()  # type: ignore[union-attr]
    return values
