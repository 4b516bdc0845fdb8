"""The printed output of a tool as log lines of its call: bounded, in order with its other events.

Python's own streams go over the pipe of the worker. The output of programs and C libraries to descriptors 1 and 2 goes
through another pipe, which the hub reads and cuts into lines.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator

from patchbay.errors import ToolFailed
from patchbay.events import Log

MAX_LINE_BYTES = 8192
"""Maximum bytes of one line; a longer one becomes several."""

MAX_LOGGED_BYTES = 1024 * 1024
"""Maximum bytes of printed output that become log lines in one call; the rest is counted and discarded."""

MAX_LOGGED_LINES = 5000
"""Maximum lines of printed output that become log lines in one call."""

MAX_PRINTED_BYTES = 64 * 1024 * 1024
"""Bytes of printed output at which a call ends."""


class Lines:
    """Cuts incoming bytes into log lines of one call. Raises ToolFailed when there are far too many."""

    def __init__(self, logger: str, level: str) -> None:
        self._logger = logger
        self._level = level
        self._line = b""
        self._left = MAX_LOGGED_LINES
        self.bytes = 0
        self.lost = 0

    def feed(self, data: bytes) -> Iterator[Log]:
        """Yield the lines that this piece completes."""
        self.bytes += len(data)
        if self.bytes > MAX_PRINTED_BYTES:
            raise ToolFailed(f"the tool was stopped: it printed more than {MAX_PRINTED_BYTES} bytes")
        if self.bytes > MAX_LOGGED_BYTES or self._left <= 0:
            self.lost += len(data)
            return
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > MAX_LINE_BYTES:
            lines, self._line = [*lines, self._line], b""
        for line in lines:
            for start in range(0, len(line) or 1, MAX_LINE_BYTES):
                self._left -= 1
                if self._left >= 0:
                    yield self._log(line[start : start + MAX_LINE_BYTES])
                else:
                    self.lost += len(line) - start + 1
                    break

    def rest(self) -> Iterator[Log]:
        """Yield the last line, and the number of discarded bytes; then start anew."""
        if self._line:
            yield self._log(self._line)
        if self.lost:
            yield Log("warning", f"{self.lost} more bytes of output were discarded", self._logger)
        self._line, self._left, self.bytes, self.lost = b"", MAX_LOGGED_LINES, 0, 0

    def _log(self, line: bytes) -> Log:
        return Log(self._level, line.decode("utf-8", "replace"), self._logger)


class CapturedOutput(io.RawIOBase):
    """The byte stream under `sys.stdout` or `sys.stderr`."""

    def __init__(self, emit: Callable[[Log], None], name: str, level: str) -> None:
        super().__init__()
        self._emit = emit
        self._name = name
        self._lines = Lines(name, level)

    def install(self) -> None:
        """Install this as the stream of its name."""
        stream = io.TextIOWrapper(self, "utf-8", "replace", write_through=True)  # type: ignore[type-var]
        setattr(sys, self._name, stream)
        setattr(sys, f"__{self._name}__", stream)

    def end(self) -> None:
        """Emit the last incomplete line at the end of the call."""
        if self._lines.bytes:
            for event in self._lines.rest():
                self._emit(event)

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        for event in self._lines.feed(bytes(data)):
            self._emit(event)
        return len(data)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1 if self._name == "stdout" else 2
