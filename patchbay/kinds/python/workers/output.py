"""What a tool prints, as log lines of its call: bounded, in order with its other events.

Python's own streams go over the link; what programs and C libraries write to descriptors 1 and 2
goes through a pipe that the hub reads, and is cut into lines there.
Sources: REQUIREMENTS X-16; THREATS X3 (floods stdout).
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator

from patchbay.errors import ToolFailed
from patchbay.events import Log

LINE = 8192
"""Most bytes of one line; a longer one becomes several."""

KEPT = 1024 * 1024
"""Bytes of printed output that become log lines in one call; more is counted, and thrown away."""

KEPT_LINES = 5000
"""The same, in lines."""

MAX_PRINTED_BYTES = 64 * 1024 * 1024
"""Bytes of printed output at which a call ends."""


class Lines:
    """Bytes as they come, as log lines of one call. Raises ToolFailed when they are far too many."""

    def __init__(self, logger: str, level: str) -> None:
        self._logger = logger
        self._level = level
        self._line = b""
        self._left = KEPT_LINES
        self.bytes = 0
        self.lost = 0

    def take(self, data: bytes) -> Iterator[Log]:
        """The lines that are complete with this piece."""
        self.bytes += len(data)
        if self.bytes > MAX_PRINTED_BYTES:
            raise ToolFailed(f"the tool was stopped: it printed more than {MAX_PRINTED_BYTES} bytes")
        if self.bytes > KEPT or self._left <= 0:
            self.lost += len(data)
            return
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > LINE:
            lines, self._line = [*lines, self._line], b""
        for line in lines:
            for start in range(0, len(line) or 1, LINE):
                self._left -= 1
                if self._left >= 0:
                    yield self._log(line[start : start + LINE])
                else:
                    self.lost += len(line) - start + 1
                    break

    def rest(self) -> Iterator[Log]:
        """The last line, and how much was thrown away; then it is like new."""
        if self._line:
            yield self._log(self._line)
        if self.lost:
            yield Log("warning", f"{self.lost} more bytes of output were thrown away", self._logger)
        self._line, self._left, self.bytes, self.lost = b"", KEPT_LINES, 0, 0

    def _log(self, line: bytes) -> Log:
        return Log(self._level, line.decode("utf-8", "replace"), self._logger)


class CapturedOutput(io.RawIOBase):
    """The bytes under `sys.stdout` or `sys.stderr`."""

    def __init__(self, emit: Callable[[Log], None], name: str, level: str) -> None:
        super().__init__()
        self._emit = emit
        self._name = name
        self._lines = Lines(name, level)

    def install(self) -> None:
        """Become the stream of this name."""
        stream = io.TextIOWrapper(self, "utf-8", "replace", write_through=True)  # type: ignore[type-var]
        setattr(sys, self._name, stream)
        setattr(sys, f"__{self._name}__", stream)

    def end(self) -> None:
        """The call is over: what was not a whole line goes out too."""
        if self._lines.bytes:
            for event in self._lines.rest():
                self._emit(event)

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        for event in self._lines.take(bytes(data)):
            self._emit(event)
        return len(data)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1 if self._name == "stdout" else 2
