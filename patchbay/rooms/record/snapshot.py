"""Snapshots of a folded log, so that opening a long log folds only the entries after the newest one.

A snapshot is the state at one entry, and of each entry before it the id, the sender and the place in the journal,
which appending and reading need. It stands in a journal topic of the room, which holds the newest one only. It
saves time and proves nothing: a log is verified without it, and one that does not fit the log is not used.
"""

from __future__ import annotations

import logging
import zlib
from array import array
from dataclasses import dataclass

import orjson

from patchbay.cid import cid_of
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.record.envelope import Json
from patchbay.store import Journal
from patchbay.topics import ROOM_SNAPSHOTS

log = logging.getLogger(__name__)

FORMAT = 2
"""Version of the form, and of the rules of the fold: a change of either needs a new number."""

LEAST_ENTRIES = 2000
"""Minimum entries of a log with a snapshot; a shorter log is folded quickly."""

GROWTH = 1.25
"""A new snapshot is stored when the log has grown by this factor: all snapshots together cost as much as a few."""

QUICK = 1
"""Level of compression: ids do not compress well, so that more effort saves little."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A folded log up to the entry that `fold` ends with.

    `positions` are places in the journal, one for each entry; `size` is the bytes of all entries and contents.
    """

    fold: Fold
    positions: array[int]
    size: int

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        fold = self.fold
        members = sorted(set(fold.senders))
        numbers = {member: number for number, member in enumerate(members)}
        fields: Json = {"format": FORMAT, "seq": fold.seq, "head": fold.head, "room": fold.room, "size": self.size}
        fields |= {"state": fold.now, "ids": list(fold.ids), "members": members}
        fields |= {"senders": [numbers[one] for one in fold.senders], "positions": self.positions.tolist()}
        return zlib.compress(orjson.dumps(fields), QUICK)


def is_due(seq: int, stored: int) -> bool:
    """Whether a log with `seq` entries needs a new snapshot, when the newest one has `stored` entries."""
    return seq >= max(LEAST_ENTRIES, stored * GROWTH)


def store_snapshot(journal: Journal, room: str, snapshot: Snapshot) -> None:
    """Store a snapshot in place of an older one."""
    data, topic = snapshot.to_bytes(), ROOM_SNAPSHOTS + room
    journal.append(topic, data)
    journal.trim(topic, len(data))


def load_snapshot(journal: Journal, room: str, log_topic: str) -> Snapshot | None:
    """Return the newest snapshot of a room; None without one that fits its log."""
    rows = journal.tail(ROOM_SNAPSHOTS + room, 1)
    if not rows:
        return None
    try:
        found = _decoded(rows[0].data)
    except (zlib.error, orjson.JSONDecodeError, KeyError, TypeError, IndexError, ValueError) as problem:
        log.warning("the snapshot of the room %s cannot be read, and its whole log is: %r", room, problem)
        return None
    if found is None:
        return None
    last = journal.read(log_topic, found.positions[-1] - 1, 1)
    if not last or last[0].seq != found.positions[-1] or cid_of(last[0].data) != found.fold.head:
        log.warning("the snapshot of the room %s does not fit its log, which is read as a whole", room)
        return None
    return found


def _decoded(data: bytes) -> Snapshot | None:
    """Return a stored snapshot; None for another format. A damaged one raises any error."""
    fields = orjson.loads(zlib.decompress(data))
    if fields["format"] != FORMAT:
        return None
    fold, members = Fold(), fields["members"]
    fold.seq, fold.head, fold.room, fold.now = fields["seq"], fields["head"], fields["room"], fields["state"]
    fold.ids = {id: seq for seq, id in enumerate(fields["ids"], 1)}
    fold.senders = [members[number] for number in fields["senders"]]
    positions = array("q", fields["positions"])
    if not fold.seq == len(fold.ids) == len(fold.senders) == len(positions):
        raise ValueError("its lists have different lengths")
    return Snapshot(fold, positions, fields["size"])
