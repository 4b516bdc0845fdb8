"""The entries of a room as events for MCP clients: each principal gets those that the room shows it, and no others.

The log of a room has all of its entries, so that every cursor replays. The present policy of the room decides at each
reading, as for its exported log (`history.py`).
Source: SEP-3415, Cursor Lifecycle and Authorization.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson

from patchbay.errors import PatchbayError
from patchbay.occurrences.records import MAX_PAYLOAD_BYTES, Occurrence
from patchbay.occurrences.sources import PAGE, StoredSource
from patchbay.rooms.folding.acl import Participant
from patchbay.rooms.history import readers_of, visible_for
from patchbay.rooms.record.log import Logged
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from patchbay.rooms.visibility import shown_envelope
from patchbay.topics import ROOM_NEWS


class MessageSource(StoredSource):
    """The entries of a room (its id) for a principal; None is the operator, who sees all of them."""

    def __init__(self, rooms: Rooms, room: str, principal: str | None, place: str) -> None:
        super().__init__(rooms.store, place)
        self._rooms = rooms
        self._room = room
        self._principal = principal
        self.topics = (ROOM_NEWS + room,)

    def _newest(self) -> int:
        room = self._open()
        return room.seq if room is not None else 0

    def _entries(self, seq: int, at: float, now: float) -> tuple[list[Occurrence], bool]:
        room = self._open()
        if room is None:
            return [], True
        readers: list[Participant] | None = None
        if self._principal is not None:
            seq = max(seq, visible_for(room.core, self._principal) - 1)
            readers = readers_of(room.core, self._principal)
        left = min(room.seq - seq, PAGE + 1)
        entries = room.core.log.read(seq, left) if left > 0 else ()
        return [_event(room, readers, one) for one in entries], False

    def _open(self) -> Room | None:
        """Return the room with its newest entries; None for one that is gone."""
        try:
            room = self._rooms.open(self._room)
        except PatchbayError:
            return None
        room.core.log.catch_up()
        return room


def _event(room: Room, readers: list[Participant] | None, logged: Logged) -> Occurrence:
    envelope = logged.envelope if readers is None else shown_envelope(room.state_now, readers, logged.envelope)
    data: dict[str, Any] = {"seq": logged.entry.seq, "type": envelope["type"], "from": envelope["from"]}
    payload = orjson.dumps(envelope["payload"])
    if len(payload) <= MAX_PAYLOAD_BYTES:
        data["payload"] = envelope["payload"]
    return Occurrence(envelope["id"], _unix(envelope["ts"]), data, str(logged.entry.seq))


def _unix(ts: str) -> float:
    """Return the time of an envelope as Unix time in seconds; 0 for a text that is no time."""
    try:
        return datetime.fromisoformat(ts).timestamp()
    except ValueError:
        return 0.0
