"""Server-sent events: one JSON message is one event of one data line, whatever its text.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html; SPEC-DIGEST 1.8; REQUIREMENTS SUB-24.
"""

from __future__ import annotations

COMMENT = b":\n\n"
"""A line that says "alive" and nothing else."""

MAX_EVENT_BYTES = 1_000_000
"""Bytes of the largest message in an event: the official Python client ends a stream at an event above 1 MiB."""

RETRY = 1000
"""Milliseconds a client should wait before it comes back to a stream."""


def event(data: bytes, id: str | None = None) -> bytes:
    """One event with a message. `data` is one line of compact JSON, so it holds no newline."""
    if id is None:
        return b"event: message\ndata: " + data + b"\n\n"
    return b"event: message\nid: " + id.encode("ascii") + b"\ndata: " + data + b"\n\n"


def address(url: str) -> bytes:
    """The first event of a stream of 2024-11-05: where to post to. `url` is ASCII without a line break."""
    return b"event: endpoint\ndata: " + url.encode("ascii") + b"\n\n"


def priming(id: str) -> bytes:
    """The first event of a stream that can be resumed: an id, no message, and when to come back."""
    return b"id: " + id.encode("ascii") + b"\nretry: %d\ndata: \n\n" % RETRY
