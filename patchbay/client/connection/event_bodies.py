"""Read an event stream on the caller's thread, as long as it holds only progress, logs and the result.

Any other event is left in the stream for the official client, with the id of the last event before it, so that the
client can resume the stream.

Source: MCP specification, basic/transports, resumability.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from patchbay.client.connection.requests import Item, Json, make_notification_item
from patchbay.jsonrpc import load_json

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE_END = re.compile(rb"\r\n|\n|\r")
PLAIN_NOTIFICATIONS = frozenset({"notifications/progress", "notifications/message"})
"""Notifications that are delivered here."""


class EventBody:
    """The events of one answer. `is_plain` becomes False at the first event that is left to the official client."""

    def __init__(self, id: str, on_item: Callable[[Item], None]) -> None:
        self.is_plain = True
        self.result: Json | None = None
        self._id = id
        self._on_item = on_item
        self._resume_fields: dict[bytes, bytes] = {}

    def consume(self, pieces: list[bytes]) -> list[bytes]:
        """Consume the plain events of a body, and return the rest."""
        body = b"".join(pieces)
        while self.is_plain and self.result is None and (end := _EVENT_END.search(body)) is not None:
            if self._consume_event(body[: end.start()]):
                body = body[end.end() :]
            else:
                self.is_plain = False
        if not self.is_plain and self._resume_fields:
            body = b"".join(b"%s: %s\n" % mark for mark in self._resume_fields.items()) + b"data:\n\n" + body
        return [body] if body else []

    def _consume_event(self, event: bytes) -> bool:
        """Consume one event; return False when it is not plain."""
        fields = [line.partition(b":") for line in _LINE_END.split(event) if not line.startswith(b":")]
        found = [(name, value.removeprefix(b" ")) for name, _, value in fields]
        data = b"\n".join(value for name, value in found if name == b"data")
        if data:
            try:
                message = load_json(data)
            except ValueError:
                return False
            if not isinstance(message, dict) or not self._use_message(message):
                return False
        self._resume_fields |= {name: value for name, value in found if name in (b"id", b"retry") and value}
        return True

    def _use_message(self, message: Json) -> bool:
        method, params = message.get("method"), message.get("params")
        if method in PLAIN_NOTIFICATIONS and "id" not in message and isinstance(params, dict):
            self._on_item(make_notification_item(str(method), params))
            return True
        result = message.get("result")
        if method is not None or "error" in message or message.get("id") != self._id or not isinstance(result, dict):
            return False
        if result.get("resultType", "complete") != "complete":
            return False
        self.result = result
        return True
