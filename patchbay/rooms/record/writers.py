"""What each principal has written into the log of one room, counted in its account `room_bytes` of the ledger.

An entry counts for the sender of its envelope; one that the hub makes counts for the session or the call that it is
about. A row of the account stands for many entries: it is due after SETTLE_BYTES, and is written together with the
entry that makes it due, so that a deleted room gets no further row. What a process has not written yet, less than
SETTLE_BYTES for each principal, is not counted after a crash.
Source: CWE-770 (allocation of resources without limits).
"""

from __future__ import annotations

import orjson

from patchbay.catalogue.contents.ledger import ROOM_BYTES, SETTLE_BYTES, Entry, Ledger, owner_of
from patchbay.catalogue.contents.tallies import MAX_PENDING, SHARE_OF_LIMIT
from patchbay.errors import StaleUpdate
from patchbay.rooms.record.envelope import HUB, Json
from patchbay.store import Journal
from patchbay.topics import ROOM_WRITERS

LEAST_BYTES = 4096
"""What the end of a session leaves uncounted, at most: a row for fewer bytes would be larger than they are."""

OWN_CHECKED = frozenset({"tool.call", "presence.join", "caps.update", "tool.advertise"})
"""Entries of the hub that a caller causes by itself: beyond its limit they are refused, as its own entries are."""


class Writers:
    """The writers of one room in this process. The lock of the log is held while they count."""

    def __init__(self, ledger: Ledger, room: str) -> None:
        self._ledger = ledger
        self._room = room
        self._principals: dict[str, str] = {}
        self._pending: dict[str, int] = {}

    def note(self, id: str, principal: str) -> None:
        """Take note of the principal of a session or of a call, by its id."""
        self._principals[id] = principal

    def forget(self, id: str) -> None:
        """Forget a session or a call that has ended."""
        self._principals.pop(id, None)

    def find(self, envelope: Json, state: Json) -> str | None:
        """Return the principal that causes an entry; None where this process does not know it."""
        sender, payload = envelope["from"], envelope["payload"]
        if sender != HUB:
            return self._principals.get(sender)
        call, server = str(payload.get("callId")), str(payload.get("serverId"))
        found = (
            str(payload.get("session")),
            call,
            state["calls"].get(call, {}).get("caller", ""),
            state["servers"].get(server, {}).get("owner", ""),
        )
        return next((self._principals[id] for id in found if id in self._principals), None)

    def check(self, principal: str, envelope: Json, size: int) -> None:
        """Check that a principal may write `size` more bytes. Raises OverQuota.

        What ends a session or a call is always written.
        """
        kind = envelope["type"]
        is_checked = kind in OWN_CHECKED if envelope["from"] == HUB else kind != "tool.cancel"
        pending = self._pending.get(principal, 0) + size
        if is_checked and self._is_due(principal, pending):
            self._ledger.check(principal, ROOM_BYTES, pending, 0)

    def count(self, principal: str, envelope: Json, size: int) -> list[Entry]:
        """Count an entry; return the rows to append with it."""
        pending = self._pending.get(principal, 0) + size
        is_last = envelope["type"] == "presence.part" and pending >= LEAST_BYTES
        if not is_last and not self._is_due(principal, pending):
            self._pending[principal] = pending
            return []
        self._pending.pop(principal, None)
        return rows_of(self._ledger, principal, self._room, pending)

    def mark(self) -> dict[str, int]:
        """Return what waits for a row, for `roll_back`."""
        return dict(self._pending)

    def roll_back(self, mark: dict[str, int]) -> None:
        """Count as before `mark`: the entries since then are not written."""
        self._pending = mark

    def _is_due(self, principal: str, pending: int) -> bool:
        limit = self._ledger.limit_of(principal, ROOM_BYTES).bytes
        most = SETTLE_BYTES if limit is None else min(SETTLE_BYTES, limit // SHARE_OF_LIMIT)
        return pending >= most or len(self._pending) >= MAX_PENDING


def rows_of(ledger: Ledger, principal: str, room: str, size: int) -> list[Entry]:
    """Return the rows of bytes that a principal writes into the log of a room: of its account, and of the room."""
    own = ledger.row(principal, ROOM_BYTES, room, size, None, things=0)
    return [own, (ROOM_WRITERS + room, orjson.dumps([owner_of(principal), size]), None)]


def give_back(journal: Journal, ledger: Ledger, room: str) -> None:
    """Take the bytes of a deleted log out of the accounts of its writers, once, however often this is called."""
    topic = ROOM_WRITERS + room
    while True:
        rows, counted = list(_all_rows(journal, topic)), dict[str, int]()
        for _, owner, size in rows:
            counted[owner] = counted.get(owner, 0) + size
        owner = next((name for name, size in counted.items() if size > 0), "")
        if not owner:
            break
        back = (topic, orjson.dumps([owner, -counted[owner]]), None)
        try:
            ledger.take_back(owner, ROOM_BYTES, counted[owner], 0, [back], {topic: rows[-1][0]})
        except StaleUpdate:
            if journal.last(topic) == rows[-1][0]:
                raise
    journal.remove(topic, 2**62)


def _all_rows(journal: Journal, topic: str) -> list[tuple[int, str, int]]:
    """Return the seq, the owner and the bytes of each row about a room."""
    found: list[tuple[int, str, int]] = []
    after = 0
    while entries := journal.read(topic, after):
        after = entries[-1].seq
        found += [(entry.seq, *orjson.loads(entry.data)) for entry in entries]
    return found
