"""One room's log in the store: appended by any process of the hub, without a gap and without a fork.

An entry is appended only while the journal's newest entry is the one that it follows (compare and set); otherwise the
log catches up and the entry is made anew from the state as it is then. Appending is idempotent by the envelope's id.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from patchbay.errors import StaleUpdate
from patchbay.rooms.errors import RoomRefused, TooMany, WrongLog
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.record.canonical import Signer
from patchbay.rooms.record.contents import Contents, content_cid, content_size, join, split
from patchbay.rooms.record.entry import Entry, make_entry, read_stored
from patchbay.rooms.record.envelope import WITHHELD, Json
from patchbay.store import Store

PAGE = 1000
"""Entries that are read from the journal at once."""

ALWAYS_ACCEPTED = frozenset({"presence.part", "tool.result", "tool.cancel", "room.redact", "room.policy", "room.flags"})
"""Types that a log which has reached its bound still takes, so that a full room can be put in order."""

Make = Callable[[Fold, int], Json]
"""Makes the envelope to append from the state as it is and the time (Unix, milliseconds); raises to refuse."""


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry of the log; `position` is its seq in the store's journal, `contents` are those that are known here."""

    entry: Entry
    position: int
    contents: Json | None = None
    is_duplicate: bool = False

    @property
    def envelope(self) -> Json:
        """The envelope as participants see it."""
        return join(self.entry.envelope, self.contents)


class RoomLog:
    """The log of one room, folded. Safe to use from many threads; several processes may append to one log."""

    def __init__(self, store: Store, room: str, signer: Signer, max_bytes: int, replay_seconds: float) -> None:
        self.room = room
        self.topic = f"room-log/{room}"
        self.contents = Contents(store.journal, room)
        self.lock = threading.RLock()
        self.fold = Fold()
        self.bytes = 0
        """Bytes of all entries and of their contents."""
        self._journal = store.journal
        self._signer = signer
        self._max_bytes = max_bytes
        self._replay = replay_seconds
        self._positions = array("q")
        self._unseen: deque[Logged] = deque()
        self._fresh: dict[str, Json] = {}

    def catch_up(self) -> None:
        """Take in what others have appended. Raises WrongLog when the journal does not continue this log."""
        with self.lock:
            while rows := self._journal.read(self.topic, self._position, PAGE):
                for row in rows:
                    entry = read_stored(row.data, self.fold.seq + 1)
                    entry.__dict__["data"] = row.data  # the bytes are canonical: they were written so
                    self._apply(Logged(entry, row.seq))

    def unseen(self, up_to: int) -> list[Logged]:
        """Take the entries, each once and in order, whose position is at most `up_to`."""
        with self.lock:
            taken = []
            while self._unseen and self._unseen[0].position <= up_to:
                taken.append(self._unseen.popleft())
            return taken

    def append(self, make: Make, at: int | None = None) -> Logged:
        """Append an envelope. Raises what `make` raises, RoomRefused for what the fold refuses, TooMany for a full log.

        An envelope whose id is in the log already, by the same sender and with the same content, is not appended again.
        """
        with self.lock:
            while True:
                self.catch_up()
                now = int(time.time() * 1000) if at is None else at
                logged = self._try_to_append(make(self.fold, now), now)
                if logged is not None:
                    return logged

    def _try_to_append(self, envelope: Json, now: int) -> Logged | None:
        profile = self._profile(envelope)
        slim, contents = split(envelope, is_withheld=profile == "ghost")
        known = self.fold.ids.get(envelope["id"].lower())
        if known is not None:
            return self._duplicate(known, slim, contents)
        entry = make_entry(self._signer, self.fold.seq + 1, self.fold.head or None, now, slim)
        size = len(entry.data) + content_size(slim)
        if self.bytes + size > self._max_bytes and envelope["type"] not in ALWAYS_ACCEPTED:
            raise TooMany(f"the room's log is full: it has {self.bytes} of {self._max_bytes} bytes (--room-log-limit)")
        before = self._position
        self._check(entry)
        if contents is not None:
            self._fresh[entry.cid] = contents
            if not self.contents.get(envelope["id"]):
                keep = self._replay if profile in ("ephemeral", "ghost") else None
                self.contents.put(envelope["id"], contents, keep)
        try:
            position = self._journal.append(self.topic, entry.data, last=before)
        except StaleUpdate:
            self._fresh.pop(entry.cid, None)
            return None
        logged = Logged(entry, position, self._fresh.pop(entry.cid, None))
        self._apply(logged)
        return logged

    def _check(self, entry: Entry) -> None:
        """Raise RoomRefused for what the fold would refuse."""
        try:
            self.fold.check(entry)
        except WrongLog as problem:
            raise RoomRefused(problem.why) from problem.__cause__

    def _apply(self, logged: Logged) -> None:
        self.fold.apply(logged.entry)
        self._positions.append(logged.position)
        self.bytes += len(logged.entry.data) + content_size(logged.entry.envelope)
        self._unseen.append(logged)

    def _duplicate(self, seq: int, slim: Json, contents: Json | None) -> Logged:
        found = self.entry(seq)
        if found.entry.envelope != slim:
            raise RoomRefused(f"the id {slim['id']} is taken: it is the id of entry {seq}, which says something else")
        return Logged(found.entry, found.position, contents, is_duplicate=True)

    def _profile(self, envelope: Json) -> str:
        """The stricter of the privacy profiles of the sender and of the caller whose call this answers."""
        state = self.fold.now
        session = state["sessions"].get(envelope["from"], {})
        call = state["calls"].get(envelope["payload"].get("callId"), {}) if envelope["type"] == "tool.result" else {}
        profiles = {session.get("profile"), call.get("profile")}
        return next((one for one in ("ghost", "ephemeral") if one in profiles), "pseudonymous")

    # reading

    @property
    def _position(self) -> int:
        return self._positions[-1] if self._positions else 0

    def position(self, seq: int) -> int:
        """Return where an entry stands in the journal; 0 for the seq 0."""
        with self.lock:
            return self._positions[seq - 1] if 0 < seq <= len(self._positions) else (self._position if seq > 0 else 0)

    def entry(self, seq: int) -> Logged:
        """Return one entry with its contents."""
        return next(self.read(seq - 1, 1))

    def read(self, after: int = 0, limit: int = PAGE) -> Iterator[Logged]:
        """Yield at most `limit` entries after a seq, with the contents that are still there."""
        rows = self._journal.read(self.topic, self.position(after), limit)
        for seq, row in enumerate(rows, after + 1):
            entry = read_stored(row.data, seq)
            entry.__dict__["data"] = row.data
            yield self.with_contents(Logged(entry, row.seq))

    def with_contents(self, logged: Logged) -> Logged:
        """Return an entry with its contents, where they are kept."""
        envelope = logged.entry.envelope
        if logged.contents is not None or (content_cid(envelope) is None and WITHHELD not in envelope["payload"]):
            return logged
        return Logged(logged.entry, logged.position, self.contents.get(envelope["id"]))
