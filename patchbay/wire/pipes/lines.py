"""Lines of bytes: a bounded reader and a writer that many threads share.

A message is always one line: the characters that some readers take for the end of a line (U+0085, U+2028, U+2029) are
written as JSON escapes. A reader that has left is not an error: the writer ignores further messages.
Source: MCP specification, basic/transports (stdio).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

from patchbay.errors import TooLarge

log = logging.getLogger(__name__)

CHUNK = 64 * 1024

_BREAKS = (("\u0085", b"\\u0085"), ("\u2028", b"\\u2028"), ("\u2029", b"\\u2029"))
_ESCAPES = tuple((character.encode(), escape) for character, escape in _BREAKS)


def lines(read: Callable[[int], bytes], limit: int) -> Iterator[bytes | TooLarge]:
    """Yield the lines from `read` (some bytes at each call, none at the end) without line ends; skip blank lines.

    A line of more than `limit` bytes becomes one TooLarge, and its rest is skipped. The last line needs no line end.
    """
    held, skipping = bytearray(), False
    while piece := read(CHUNK):
        *whole, rest = piece.split(b"\n")
        for part in whole:
            held += part
            if not skipping:
                yield from _line(held, limit)
            held, skipping = bytearray(), False
        if not skipping:
            held += rest
            if len(held) > limit + 1:
                yield _too_large(limit)
                held, skipping = bytearray(), True
    if not skipping:
        yield from _line(held, limit)


def _line(held: bytearray, limit: int) -> Iterator[bytes | TooLarge]:
    line = bytes(held.removesuffix(b"\r"))
    if len(line) > limit:
        yield _too_large(limit)
    elif line.strip():
        yield line


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the line is too long: expected at most {limit} bytes (setting body_limit)")


def as_line(data: bytes) -> bytes:
    """Return a compact JSON text as one line, with its line end."""
    for character, escape in _ESCAPES:
        if character in data:
            data = data.replace(character, escape)
    return data + b"\n"


class Writer:
    """Writes whole lines, one after the other. `write` may take fewer bytes than it is given; `gone` is called once."""

    def __init__(self, write: Callable[[memoryview], int], gone: Callable[[], None]) -> None:
        self._write = write
        self._gone = gone
        self._open = True
        self._lock = threading.Lock()

    def send(self, data: bytes) -> None:
        """Write a compact JSON text as one line; do nothing if the reader has left."""
        left = memoryview(as_line(data))
        with self._lock:
            if not self._open:
                return
            try:
                while left:
                    left = left[self._write(left) :]
            except (OSError, ValueError) as problem:
                log.info("the reader of the answers has left: %s", problem)
                self._open = False
        if left:
            self._gone()
