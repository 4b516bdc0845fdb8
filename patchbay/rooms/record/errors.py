"""The errors of rooms, as branches of the tree of errors.

PatchbayError
├── InvalidParams
│   └── BadFrame          400   a frame, an envelope or a hello of a wrong form
├── Refused
│   └── RoomRefused       403   the room's rights, its policy or a privacy profile forbid it
│       └── NotShown            the sender may not know what it calls
├── UnknownRoom           404
├── RoomExists            409
├── RoomChanged           412   the log has other entries than the sender knows
├── TooMany               429   a bound of the room is reached
└── ContentError
    └── WrongLog                a log that does not continue the earlier entries; names the `seq`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from patchbay.activation import CallPlace
from patchbay.errors import ContentError, InvalidParams, PatchbayError, Refused

Json = dict[str, Any]


class BadFrame(InvalidParams):
    """A frame, an envelope or a hello that cannot be read. A WebSocket that sent it is closed with 1011."""


class RoomRefused(Refused):
    """The sender may not do this in this room."""


class NotShown(RoomRefused):
    """A call of what the sender may not know: it is refused as one of what does not exist.

    `hide` returns the state of a room as the sender may know it; `place` counts the call like any other.
    """

    def __init__(self, message: str, hide: Callable[[Json], Json], place: CallPlace | None) -> None:
        super().__init__(message)
        self.hide = hide
        self.place = place


class UnknownRoom(PatchbayError):
    code, status = -32600, 404


class RoomExists(PatchbayError):
    code, status = -32600, 409


class RoomChanged(PatchbayError):
    """The log of a room has other entries than the sender of a request knows (RFC 9110, section 15.5.13)."""

    code, status = -32600, 412


class TooMany(PatchbayError):
    """A limit of the room is reached; the message names the limit and its setting."""

    code, status = -32600, 429


class WrongLog(ContentError):
    """An entry that cannot follow the entries before it. `seq` is its place in the log, counted from 1."""

    def __init__(self, seq: int, why: str) -> None:
        super().__init__(f"entry {seq}: {why}", {"seq": seq})
        self.seq = seq
        self.why = why
