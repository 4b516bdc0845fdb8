"""Server-sent events: each JSON message becomes one event with one data line.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

COMMENT = b":\n\n"
"""An empty comment, which keeps a connection open."""

MAX_EVENT_BYTES = 1_000_000
"""Bytes of the largest message in an event: the official Python client ends a stream at an event above 1 MiB."""

RETRY = 1000
"""Milliseconds that a client should wait before it reconnects to a stream."""


def event(data: bytes, id: str | None = None) -> bytes:
    """Return one event with a message. `data` is one line of compact JSON, so it holds no newline."""
    if id is None:
        return b"event: message\ndata: " + data + b"\n\n"
    return b"event: message\nid: " + id.encode("ascii") + b"\ndata: " + data + b"\n\n"


def address(url: str) -> bytes:
    """Return the first event of a stream of 2024-11-05: the address to post to. `url` is ASCII without a line break."""
    return b"event: endpoint\ndata: " + url.encode("ascii") + b"\n\n"


def priming(id: str) -> bytes:
    """Return the first event of a stream that a client can resume: an id, no message, and the time to reconnect."""
    return b"id: " + id.encode("ascii") + b"\nretry: %d\ndata: \n\n" % RETRY
