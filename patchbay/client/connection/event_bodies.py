"""An event stream that is read on the caller's thread, as long as it says nothing but progress, logs and the result.

Whatever else it says is left in the stream for the official client, with the id of the last event before it, so that
the client can resume the stream. Sources: SPEC-DIGEST 2.2; MCP specification, basic/transports, resumability.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import orjson

from patchbay.client.connection.requests import Item, Json, notification_item

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINES = re.compile(rb"\r\n|\n|\r")
_LARGE = re.compile(rb"\d{19}")
TOLD = frozenset({"notifications/progress", "notifications/message"})


def decoded(data: bytes) -> Any:
    """A JSON value; integers beyond 64 bits stay whole, which orjson turns into floats. Raises ValueError."""
    return json.loads(data) if _LARGE.search(data) else orjson.loads(data)


class EventBody:
    """The events of one answer. `plain` turns False at the first event that is left to the official client."""

    def __init__(self, id: str, heard: Callable[[Item], None]) -> None:
        self.plain = True
        self.result: Json | None = None
        self._id = id
        self._heard = heard
        self._marks: dict[bytes, bytes] = {}

    def taken(self, pieces: list[bytes]) -> list[bytes]:
        """What is left of the body after its plain events."""
        body = b"".join(pieces)
        while self.plain and self.result is None and (end := _END.search(body)) is not None:
            if self._take(body[: end.start()]):
                body = body[end.end() :]
            else:
                self.plain = False
        if not self.plain and self._marks:
            body = b"".join(b"%s: %s\n" % mark for mark in self._marks.items()) + b"data:\n\n" + body
        return [body] if body else []

    def _take(self, event: bytes) -> bool:
        """Use one event; False when it is not plain."""
        fields = [line.partition(b":") for line in _LINES.split(event) if not line.startswith(b":")]
        found = [(name, value.removeprefix(b" ")) for name, _, value in fields]
        data = b"\n".join(value for name, value in found if name == b"data")
        if data:
            try:
                message = decoded(data)
            except ValueError:
                return False
            if not isinstance(message, dict) or not self._use(message):
                return False
        self._marks |= {name: value for name, value in found if name in (b"id", b"retry") and value}
        return True

    def _use(self, message: Json) -> bool:
        method, params = message.get("method"), message.get("params")
        if method in TOLD and "id" not in message and isinstance(params, dict):
            self._heard(notification_item(str(method), params))
            return True
        result = message.get("result")
        if method is not None or "error" in message or message.get("id") != self._id or not isinstance(result, dict):
            return False
        if result.get("resultType", "complete") != "complete":
            return False
        self.result = result
        return True
