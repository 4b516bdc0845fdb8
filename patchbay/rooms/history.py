"""The past of a room as its readers may see it: exported lines, backfill with marks, redactions."""

from __future__ import annotations

from collections.abc import Iterator

from patchbay.rooms.core import RoomCore, now_ms
from patchbay.rooms.feed import Delivery
from patchbay.rooms.folding.acl import Participant
from patchbay.rooms.folding.rights import NOTHING, visible_from
from patchbay.rooms.folding.state import HUMAN
from patchbay.rooms.record.canonical import canonical_bytes
from patchbay.rooms.record.contents import is_kept
from patchbay.rooms.record.envelope import Json, hub_envelope
from patchbay.rooms.record.errors import RoomRefused
from patchbay.rooms.record.log import Logged
from patchbay.rooms.visibility import shown_envelope

PAGE = 500


def exported_lines(room: RoomCore, after: int, principal: str | None) -> Iterator[bytes]:
    """Yield the log as lines; see `Room.lines`. The first entry is always shown: it says how to check the others."""
    room.log.catch_up()
    last = room.seq
    first = 1 if principal is None else visible_for(room, principal)
    readers = None if principal is None else readers_of(room, principal)
    if after == 0 and last:
        yield _line(room.log.entry(1))
        after = 1
    upto = min(first - 1, last)
    if upto > after:
        mark: Json = {"from": after + 1, "to": upto, "head": room.log.entry(upto).entry.cid}
        yield canonical_bytes({"withheld": mark | {"reason": f"the room shows its history as {_history(room)}"}})
        after = upto
    while after < last:
        for logged in room.log.read(after, min(PAGE, last - after)):
            yield _line(logged, _shows_whole(room, readers, logged))
        after = min(after + PAGE, last)


def visible_for(room: RoomCore, principal: str) -> int:
    """Return the seq of the first entry that a principal may see, under any of its names in the room."""
    if room.is_banned(principal):
        return NOTHING
    return min(visible_from(room.state_now, name) for name in room.list_names(principal))


def past_deliveries(room: RoomCore, after: int, limit: int, principal: str, session: str) -> list[Delivery]:
    """Return entries after a seq for a session; one `room.withheld` replaces those that it may not see."""
    record = room.state_now["sessions"].get(session, {})
    first = min(visible_for(room, principal), visible_from(room.state_now, record.get("member", "")))
    first = min(first, record.get("joined", first))
    found: list[Delivery] = []
    if first - 1 > after:
        upto = min(first - 1, room.seq)
        payload: Json = {"from": after + 1, "to": upto, "reason": f"the room shows its history as {_history(room)}"}
        envelope = hub_envelope(room.name, "room.withheld", payload, now_ms(room.store))
        found.append(Delivery(room.log.position(upto), envelope, upto, session))
        after = upto
    rows = room.log.read(after, limit - len(found))
    return found + [Delivery(one.position, one.envelope, one.entry.seq) for one in rows]


def redact_entry(room: RoomCore, envelope: Json) -> Logged:
    """Log a redaction and delete the contents. Raises RoomRefused if the entry has no contents."""
    seq = envelope["payload"].get("seq")
    if isinstance(seq, int) and 0 < seq <= room.seq:
        target = room.log.entry(seq)
        if target.entry.envelope == target.envelope:
            raise RoomRefused(f"the entry {seq} has no contents beside the chain; what the chain itself says stays")
    return room.append(lambda fold, now: envelope)


def forget_redacted(room: RoomCore, logged: Logged) -> None:
    """Delete the contents of a redacted entry, in the store and in memory."""
    if logged.entry.envelope["type"] == "room.redact":
        seq = logged.entry.envelope["payload"]["seq"]
        room.later(lambda: _drop(room, seq))


def _drop(room: RoomCore, seq: int) -> None:
    target = room.log.entry(seq)
    room.log.contents.drop(target.entry.envelope["id"])
    room.feed.redact(seq, target.entry.envelope)


def readers_of(room: RoomCore, principal: str) -> list[Participant]:
    """Return the participants that a principal is in a room: its sessions, or without one who it would be."""
    state, names = room.state_now, room.list_names(principal)
    sessions = [Participant(one["role"], one["member"]) for one in state["sessions"].values() if one["member"] in names]
    return sessions or [Participant(state["members"].get(name, {}).get("role") or HUMAN, name) for name in names]


def _shows_whole(room: RoomCore, readers: list[Participant] | None, logged: Logged) -> bool:
    """Whether the access list hides nothing of an entry. Its contents are signed as a whole, or left out as a whole."""
    envelope = logged.envelope
    return readers is None or shown_envelope(room.state_now, readers, envelope) is envelope


def _line(logged: Logged, is_whole: bool = True) -> bytes:
    return logged.entry.line(logged.contents if is_whole and is_kept(logged.entry.envelope) else None)


def _history(room: RoomCore) -> str:
    return str(room.state_now["policy"].get("history"))
