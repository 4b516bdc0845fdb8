"""One room's log in the store: appended by any process of the hub, without a gap and without a fork.

An entry is appended only while the journal's newest entry is its predecessor (compare and set); otherwise the log
catches up and the entry is made again from the newer state. Appending is idempotent by the envelope's id.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from patchbay.catalogue.contents.ledger import Ledger
from patchbay.errors import StaleUpdate
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.record.canonical import Signer, canonical_bytes
from patchbay.rooms.record.contents import Contents, content_cid, content_size, join, split
from patchbay.rooms.record.entry import Entry, make_entry, read_stored
from patchbay.rooms.record.envelope import WITHHELD, Json
from patchbay.rooms.record.errors import RoomChanged, RoomRefused, TooMany, UnknownRoom, WrongLog
from patchbay.rooms.record.snapshot import Snapshot, is_due, load_snapshot, store_snapshot
from patchbay.rooms.record.writers import Writers
from patchbay.store import Store
from patchbay.topics import ROOM_LOGS

PAGE = 1000
"""Entries that are read from the journal at once."""

MAX_TOGETHER = 64
"""Entries that are appended in one step."""

ALWAYS_ACCEPTED = frozenset(
    {
        "presence.part",
        "mcp.replaced",
        "room.rules",
        "tool.result",
        "tool.cancel",
        "room.redact",
        "room.policy",
        "room.flags",
    }
)
"""Types that a log accepts after it has reached its limit, so that members can leave and clean up a full room."""

END = b"end"
"""The data of the row of the journal that ends a log, which is no entry: nothing can be appended after it."""

Make = Callable[[Fold, int], Json]
"""Makes the envelope to append from the present state and the time (Unix, milliseconds); raises to refuse."""


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry of the log; `position` is its seq in the store's journal; `contents` is None if unknown."""

    entry: Entry
    position: int
    contents: Json | None = None
    is_duplicate: bool = False

    @property
    def envelope(self) -> Json:
        """The envelope as participants see it."""
        return join(self.entry.envelope, self.contents)


@dataclass(slots=True)
class _Request:
    """A request to append; `outcome` is its result, None until it has one."""

    make: Make
    outcome: Logged | BaseException | None = None


class RoomLog:
    """The log of one room, folded. Safe to use from many threads; several processes may append to one log."""

    def __init__(
        self,
        store: Store,
        room: str,
        signer: Signer,
        max_bytes: int,
        replay_seconds: float,
        ledger: Ledger | None = None,
    ) -> None:
        self.room = room
        self.writers = Writers(ledger or Ledger(store.journal), room)
        self.topic = f"{ROOM_LOGS}{room}"
        self.contents = Contents(store.journal, room)
        self.lock = threading.RLock()
        self.fold = Fold()
        self.bytes = 0
        """Bytes of all entries and of their contents."""
        self.is_ended = False
        """Whether the room is deleted, as far as this process knows."""
        self._journal = store.journal
        self._signer = signer
        self._max_bytes = max_bytes
        self._replay = replay_seconds
        self._positions = array("q")
        self._unseen: deque[Logged] = deque()
        self._waiting: deque[_Request] = deque()
        self._snapshot_seq = 0
        self._load_snapshot()

    def _load_snapshot(self) -> None:
        found = load_snapshot(self._journal, self.room, self.topic)
        if found is not None:
            self.fold, self._positions, self.bytes = found.fold, found.positions, found.size
            self._snapshot_seq = found.fold.seq

    def keep_snapshot(self) -> None:
        """Store a snapshot when the log has grown enough since the newest one. Slow for a long log."""
        with self.lock:
            if not is_due(self.fold.seq, self._snapshot_seq):
                return
            self._snapshot_seq = self.fold.seq
            found = Snapshot(self.fold.copy(), self._positions[:], self.bytes)
        store_snapshot(self._journal, self.room, found)

    def catch_up(self) -> None:
        """Read the entries of other processes. Raises WrongLog when the journal does not continue this log."""
        with self.lock:
            while rows := self._journal.read(self.topic, self._position, PAGE):
                for row in rows:
                    if row.data == END:
                        self.is_ended = True
                        return
                    entry = read_stored(row.data, self.fold.seq + 1)
                    entry.__dict__["data"] = row.data  # the bytes are canonical: they were written so
                    self.fold.apply(entry)
                    self.bytes += len(row.data) + content_size(entry.envelope)
                    self._keep(Logged(entry, row.seq))

    def unseen(self, up_to: int) -> list[Logged]:
        """Return the entries up to the position `up_to` that were not returned before, in order."""
        with self.lock:
            taken = []
            while self._unseen and self._unseen[0].position <= up_to:
                taken.append(self._unseen.popleft())
            return taken

    def append(self, make: Make) -> Logged:
        """Append an envelope. Raises the errors of `make`, RoomRefused from the fold, TooMany for a full log,
        OverQuota for a writer that has written too much.

        An envelope whose id is in the log already, by the same sender and with the same content, is not appended again.
        Envelopes of several threads at the same time go to the store in one step.
        """
        request = _Request(make)
        self._waiting.append(request)
        with self.lock:
            while request.outcome is None:
                requests = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_TOGETHER))]
                try:
                    while not self._append_all(requests):
                        pass
                except BaseException as problem:
                    # Each of their threads gets the error: a request without an outcome would be waited for.
                    for one in requests:
                        one.outcome = one.outcome or problem
        assert request.outcome is not None, "each request was in the queue until it was done"
        if isinstance(request.outcome, BaseException):
            raise request.outcome
        return request.outcome

    def end(self, head: str) -> None:
        """End the log after the entry `head`, so that no process appends to it; one that is ended stays so.

        Raises RoomChanged if it has other entries, UnknownRoom if it is deleted.
        """
        with self.lock:
            self.catch_up()
            while not self.is_ended:
                if self.fold.head != head:
                    name = self.fold.now["name"]
                    raise RoomChanged(
                        f"the newest entry of the room {name} is {self.fold.head}, not {head:.80}:"
                        " export its log again first"
                    )
                try:
                    self._journal.append_all([(self.topic, END, None)], {self.topic: self._position})
                except StaleUpdate as problem:
                    if not self._journal.last(self.topic):
                        raise UnknownRoom("the room was deleted") from problem
                self.catch_up()

    def _append_all(self, requests: list[_Request]) -> bool:
        """Append all valid requests; return False, and change nothing, when another process was first."""
        self.catch_up()
        if self.is_ended:
            for request in requests:
                request.outcome = UnknownRoom("the room was deleted")
            return True
        mark, bytes_before, counted = self.fold.mark(), self.bytes, self.writers.mark()
        made: list[tuple[_Request, Entry, Json | None]] = []
        rows: list[tuple[str, bytes, float | None]] = []
        for request in requests:
            try:
                request.outcome = self._make_entry(request, made, rows)
            except Exception as problem:
                request.outcome = problem
        if not made:
            return True
        try:
            seqs = self._journal.append_all(rows, {self.topic: self._position})
        except BaseException as problem:
            self.fold.roll_back(mark)
            self.writers.roll_back(counted)
            self.bytes = bytes_before
            for request in requests:
                if isinstance(request.outcome, Logged):
                    request.outcome = None  # a repeat, perhaps of an entry that was not stored now
            if not isinstance(problem, StaleUpdate):
                raise
            if self._journal.last(self.topic):
                return False
            for request in requests:
                request.outcome = request.outcome or UnknownRoom("the room was deleted")
            return True
        positions = [seq for (topic, _, _), seq in zip(rows, seqs, strict=True) if topic == self.topic]
        for (request, entry, contents), position in zip(made, positions, strict=True):
            request.outcome = self._keep(Logged(entry, position, contents))
        return True

    def _make_entry(
        self,
        request: _Request,
        made: list[tuple[_Request, Entry, Json | None]],
        rows: list[tuple[str, bytes, float | None]],
    ) -> Logged | None:
        """Make and fold the entry of a request; the caller stores it. Returns the earlier entry of a repeat."""
        now = int(self._journal.now() * 1000)
        envelope = request.make(self.fold, now)
        profile = self._profile(envelope)
        slim, contents = split(envelope, profile)
        known = self.fold.ids.get(envelope["id"].lower())
        if known is not None:
            return self._duplicate(known, slim, contents, made)
        entry = make_entry(self._signer, self.fold.seq + 1, self.fold.head or None, now, slim)
        size = len(entry.data) + content_size(slim)
        if self.bytes + size > self._max_bytes and envelope["type"] not in ALWAYS_ACCEPTED:
            raise TooMany(f"the room's log is full: it has {self.bytes} of {self._max_bytes} bytes (--room-log-limit)")
        keep = self._replay if profile in ("ephemeral", "ghost") else None
        beside = b"" if contents is None else canonical_bytes(contents)
        left = len(entry.data) + (len(beside) if keep is None else 0)
        writer = self.writers.find(envelope, self.fold.now)
        if writer is not None:
            self.writers.check(writer, envelope, left)
        try:
            self.fold.apply(entry)
        except WrongLog as problem:
            raise RoomRefused(problem.why) from problem.__cause__
        self.bytes += size
        if contents is not None:
            rows.append((self.contents.topic(envelope["id"]), beside, keep))
        rows.append((self.topic, entry.data, None))
        if writer is not None:
            rows += self.writers.count(writer, envelope, left)
        made.append((request, entry, contents))
        return None

    def _keep(self, logged: Logged) -> Logged:
        self._positions.append(logged.position)
        self._unseen.append(logged)
        return logged

    def _duplicate(
        self, seq: int, slim: Json, contents: Json | None, made: list[tuple[_Request, Entry, Json | None]]
    ) -> Logged:
        entry = next((entry for _, entry, _ in made if entry.seq == seq), None)
        found = self.entry(seq) if entry is None else Logged(entry, self._position)
        if found.entry.envelope != slim:
            raise RoomRefused(f"the id {slim['id']} is taken: it is the id of entry {seq}, which says something else")
        return Logged(found.entry, found.position, contents, is_duplicate=True)

    def _profile(self, envelope: Json) -> str:
        """Return the stricter of two privacy profiles: of the sender, and of the caller whose call this answers."""
        state = self.fold.now
        session = state["sessions"].get(envelope["from"], {})
        # The fold, which checks the form of a payload, comes later.
        answered = str(envelope["payload"].get("callId")) if envelope["type"] == "tool.result" else ""
        call = state["calls"].get(answered, {})
        profiles = {session.get("profile"), call.get("profile")}
        return next((one for one in ("ghost", "ephemeral") if one in profiles), "pseudonymous")

    def content_topics(self) -> list[str]:
        """Return the topics of the contents of all envelopes."""
        with self.lock:
            return [self.contents.topic(id) for id in self.fold.ids]

    # reading

    @property
    def _position(self) -> int:
        return self._positions[-1] if self._positions else 0

    def position(self, seq: int) -> int:
        """Return the position of an entry in the journal; 0 for the seq 0."""
        with self.lock:
            return self._positions[seq - 1] if 0 < seq <= len(self._positions) else (self._position if seq > 0 else 0)

    def entry(self, seq: int) -> Logged:
        """Return one entry with its contents."""
        return next(self.read(seq - 1, 1))

    def read(self, after: int = 0, limit: int = PAGE, is_bare: bool = False) -> Iterator[Logged]:
        """Yield at most `limit` entries after a seq, with contents that were not deleted unless `is_bare` is set."""
        rows = self._journal.read(self.topic, self.position(after), limit)
        for seq, row in enumerate(rows, after + 1):
            if row.data == END:
                return
            entry = read_stored(row.data, seq)
            entry.__dict__["data"] = row.data
            logged = Logged(entry, row.seq)
            yield logged if is_bare else self.with_contents(logged)

    def with_contents(self, logged: Logged) -> Logged:
        """Return an entry, with its contents if they are kept."""
        envelope = logged.entry.envelope
        if logged.contents is not None or (content_cid(envelope) is None and WITHHELD not in envelope["payload"]):
            return logged
        return Logged(logged.entry, logged.position, self.contents.get(envelope["id"]))
