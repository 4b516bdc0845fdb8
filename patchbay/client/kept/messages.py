"""The messages between a command and a background process: one JSON object per line, over a Unix socket.

{"op": "hello" | "status" | "stop"}       one answer: an object
{"op": "request", "method": ..., ...}     {"item": ...} and {"question": ...} in order, then {"result": ...} or
{"failure": ...}; the command answers a question with {"answer": ...} or
{"failure": ...}; {"alive": true} while the server works
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from patchbay.client import errors
from patchbay.client.connection.requests import Item
from patchbay.client.errors import McpFailure, Unreachable
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.events import Log, Progress
from patchbay.jsonrpc import Notification

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Bytes of one line; a message of a server has at most half of them."""

READ_BYTES = 262_144

Json = dict[str, Any]

_ITEMS = {each.__name__: each for each in (Progress, Log, Notification)}
_FAILURES: dict[str, type[PatchbayError]] = {
    name: each for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Unreachable)
} | {"InvalidParams": InvalidParams}


class Channel:
    """One socket with JSON objects in both directions. Used by one thread at a time."""

    def __init__(self, peer: socket.socket) -> None:
        self.socket = peer
        self._read = bytearray()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message. Raises OSError."""
        self.socket.sendall(orjson.dumps(message, default=str, option=orjson.OPT_NON_STR_KEYS) + b"\n")

    def receive(self) -> Json | None:
        """Return the next message; None when the other side has closed. Raises OSError, also after the timeout."""
        while (end := self._read.find(b"\n")) < 0:
            piece = self.socket.recv(READ_BYTES)
            if not piece:
                return None
            self._read += piece
            if len(self._read) > MAX_LINE_BYTES:
                raise OSError(f"a message of more than {MAX_LINE_BYTES} bytes")
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError as problem:
            raise OSError(f"a message that is not JSON ({problem})") from problem
        if not isinstance(found, dict):
            raise OSError("a message that is not an object")
        return found

    def has_left(self) -> bool:
        """Whether the other side has closed; messages that wait stay readable."""
        self.socket.setblocking(False)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.socket.setblocking(True)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def encode_item(item: Item) -> Json:
    """Return a message of a server as JSON."""
    return {"kind": type(item).__name__, **asdict(item)}


def decode_item(value: Mapping[str, Any]) -> Item:
    """Return a message of a server from its JSON."""
    fields = dict(value)
    item: Item = _ITEMS[fields.pop("kind")](**fields)
    return item


def encode_failure(problem: PatchbayError) -> Json:
    """Return a failure as JSON."""
    kind = next((one.__name__ for one in type(problem).__mro__ if one.__name__ in _FAILURES), "McpFailure")
    return {"kind": kind, "message": problem.message, "code": problem.code, "data": problem.data}


def decode_failure(value: Mapping[str, Any]) -> PatchbayError:
    """Return a failure from its JSON."""
    kind = _FAILURES.get(str(value["kind"]))
    if kind is None:
        return McpFailure(int(value["code"]), str(value["message"]), value.get("data"))
    return kind(str(value["message"]), value.get("data"))
