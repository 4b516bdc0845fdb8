"""Cursors: opaque texts for a position in the events of one event type.

A cursor has the digest of its event type, the position, and the time at which it was given. The time says later whether
entries behind it may have been deleted by then. Nothing in a cursor gives a permission, so that it is not signed.
Source: SEP-3415, Cursor Lifecycle.
"""

from __future__ import annotations

import base64
import binascii
from hashlib import sha256
from typing import NamedTuple

import orjson

from patchbay.errors import InvalidParams

MAX_CURSOR_CHARACTERS = 8192


MAX_POSITION = 2**63 - 1
MAX_TIME_SECONDS = 253402300799.0
"""Limits on the fields of a cursor: what a store numbers entries with, and the last second of the year 9999."""


class Cursor(NamedTuple):
    """A position behind an event: `at` is Unix time in seconds."""

    position: str
    at: float


def write_cursor(source: str, cursor: Cursor) -> str:
    """Return the text of a cursor of a source, such as `server/event`."""
    fields = [_digest(source), cursor.position, round(cursor.at, 3)]
    return base64.urlsafe_b64encode(orjson.dumps(fields)).decode().rstrip("=")


def read_cursor(source: str, text: str) -> Cursor:
    """Return the cursor of a text. Raises InvalidParams for a text that is not a cursor of this source."""
    try:
        if len(text) > MAX_CURSOR_CHARACTERS:
            raise ValueError("too long")
        digest, position, at = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if digest != _digest(source) or not isinstance(position, str) or not isinstance(at, (int, float)):
            raise ValueError("of another event type")
        if (position.isdecimal() and int(position) > MAX_POSITION) or not 0 <= at <= MAX_TIME_SECONDS:
            raise ValueError("beyond every event")
    except (ValueError, TypeError, binascii.Error) as problem:
        raise InvalidParams(
            "params.cursor is not a cursor of this event type; expected one that the hub gave for it, or null"
        ) from problem
    return Cursor(position, float(at))


def _digest(source: str) -> str:
    return sha256(source.encode()).hexdigest()[:12]
