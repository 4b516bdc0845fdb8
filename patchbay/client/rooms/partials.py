"""The partials of one call on their way to a room, which takes so many envelopes a second of one session.

Text is never left out: pieces that come too soon after each other go together. Of other partials (progress with a
total, log lines) the newest counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

MAX_PARTIAL_CHARACTERS = 200_000
"""Characters of one partial. Longer text goes in several; other partials with a longer text are left out."""


class Partials:
    """Partials that wait. `send` takes the payload of a `tool.partial` without its `callId`."""

    def __init__(self, send: Callable[[Json], None]) -> None:
        self._send = send
        self._seq = 0
        self._text = ""
        self._of_text: Json = {}
        self._other: Json | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to send."""
        return bool(self._text) or self._other is not None

    def add(self, partial: Json) -> None:
        """Take a partial of the call."""
        if partial.get("type") == "text":
            self._text += partial["text"]
            self._of_text = partial
        elif len(str(partial.get("message") or partial.get("data") or "")) <= MAX_PARTIAL_CHARACTERS:
            self._other = partial

    def send_next(self) -> None:
        """Send one envelope: the text first."""
        if self._text:
            piece, self._text = self._text[:MAX_PARTIAL_CHARACTERS], self._text[MAX_PARTIAL_CHARACTERS:]
            self._send_one({**self._of_text, "message": piece, "text": piece})
        elif self._other is not None:
            other, self._other = self._other, None
            self._send_one(other)

    def send_all(self) -> None:
        """Send everything that waits."""
        while self.is_waiting:
            self.send_next()

    def _send_one(self, partial: Json) -> None:
        self._send({"partial": partial, "seq": self._seq, "done": False})
        self._seq += 1
