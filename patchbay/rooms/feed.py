"""The deliveries of one room, in order, for all readers in this process.

Logged entries and live envelopes (partials, streams, envelopes for one session) are in two journal topics of one
journal, whose positions give one order. A process reads both once and keeps the newest deliveries in memory; a reader
that falls behind them reads the log instead, and misses the live envelopes.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import orjson

from patchbay.rooms.record.envelope import Json, frame_bytes
from patchbay.rooms.record.log import Logged, RoomLog
from patchbay.rooms.visibility import LISTS
from patchbay.store import Store
from patchbay.topics import ROOM_LIVE, ROOM_NEWS

MAX_DELIVERIES = 4096
MAX_DELIVERY_BYTES = 16 * 1024 * 1024
"""Limits of the deliveries that one room keeps in memory."""


@dataclass(frozen=True)
class Delivery:
    """One envelope for readers. `seq` is its place in the log, None for a live envelope.

    `position` orders all deliveries of one room. `to` is the id of the only session that gets it, None for all.
    """

    position: int
    envelope: Json
    seq: int | None = None
    to: str | None = None

    @cached_property
    def data(self) -> bytes:
        """The envelope as JSON."""
        return orjson.dumps(self.envelope)

    @cached_property
    def frame(self) -> bytes:
        """The envelope as a frame of the WebSocket."""
        return frame_bytes(self.data, self.seq)

    @cached_property
    def is_stream(self) -> bool:
        return bool(self.envelope["kind"] == "stream")

    @cached_property
    def is_for_all(self) -> bool:
        """Whether every session of the room reads it as it is: it has no single receiver, is no part of a stream, no
        call and no list.
        """
        return self.to is None and not self.is_stream and not self.is_call and not self.is_list

    @cached_property
    def is_list(self) -> bool:
        return self.envelope["type"] in LISTS

    @cached_property
    def is_call(self) -> bool:
        return self.seq is not None and bool(self.envelope["type"] == "tool.call")


class Feed:
    """The deliveries of one room in this process. `notice` is called for each logged entry, in order, once."""

    def __init__(self, store: Store, log: RoomLog, replay_seconds: float, notice: Callable[[Logged], None]) -> None:
        self.topic = f"{ROOM_NEWS}{log.room}"
        self._live = f"{ROOM_LIVE}{log.room}"
        self._store = store
        self._log = log
        self._replay = replay_seconds
        self._notice = notice
        self._lock = threading.RLock()
        self._telling = threading.Lock()
        self._told = 0
        self._kept: list[Delivery] = []
        self._bytes = 0
        self._first = 0
        self._bound = self._live_position = self._floor = self._newest()
        log.catch_up()
        log.unseen(self._bound)
        self._readers: set[Callable[[], None]] = set()

    @property
    def floor(self) -> int:
        """The position up to which deliveries are no longer in memory."""
        return self._floor

    @property
    def bound(self) -> int:
        """The position up to which all entries were read."""
        return self._bound

    def publish(self, envelope: Json, to: str | None = None) -> None:
        """Deliver an envelope that is not logged, to one session or to all, in every process."""
        data = orjson.dumps({"to": to, "envelope": envelope})
        self.announce(self._store.journal.append(self._live, data, keep=self._replay))

    def announce(self, position: int) -> None:
        """Notify the readers of every process of a new entry at a position of the journal.

        When several threads write at the same time, one of them notifies for all.
        """
        with self._telling:
            if position <= self._told:
                return
            self._told = max(position, self._newest())
            self._store.bus.publish(self.topic)
        self.pump()

    def pump(self) -> None:
        """Read the new entries and wake the readers."""
        with self._lock:
            bound = self._newest()
            if bound <= self._bound:
                return
            self._log.catch_up()
            found = [self._logged(one) for one in self._log.unseen(bound)]
            found += self._lives(bound)
            self._bound = bound
            for delivery in sorted(found, key=lambda one: one.position):
                self._keep(delivery)
            readers = list(self._readers)
        for wake in readers:
            wake()

    def _newest(self) -> int:
        # No later entry has a lower position: positions follow the order of writing.
        journal = self._store.journal
        return max(journal.last(self._live), journal.last(self._log.topic))

    def _logged(self, logged: Logged) -> Delivery:
        whole = self._log.with_contents(logged)
        self._notice(whole)
        return Delivery(logged.position, whole.envelope, logged.entry.seq)

    def _lives(self, bound: int) -> list[Delivery]:
        found: list[Delivery] = []
        while rows := self._store.journal.read(self._live, self._live_position):
            for row in rows:
                if row.seq > bound:
                    return found
                self._live_position = row.seq
                record = orjson.loads(row.data)
                found.append(Delivery(row.seq, record["envelope"], None, record["to"]))
        return found

    def _keep(self, delivery: Delivery) -> None:
        self._kept.append(delivery)
        self._bytes += len(delivery.data)
        dropped = 0
        while len(self._kept) - dropped > MAX_DELIVERIES or self._bytes > MAX_DELIVERY_BYTES:
            self._bytes -= len(self._kept[dropped].data)
            dropped += 1
        if dropped:
            self._floor = self._kept[dropped - 1].position
            del self._kept[:dropped]
            self._first += dropped

    # reading

    def add_reader(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each new delivery, on any thread; it must return at once."""
        with self._lock:
            self._readers.add(wake)

    def remove_reader(self, wake: Callable[[], None]) -> None:
        """Stop calling `wake`."""
        with self._lock:
            self._readers.discard(wake)

    def index_after(self, position: int) -> int | None:
        """Return the index of the first delivery after a position; None when it is no longer in memory."""
        with self._lock:
            if position < self._floor:
                return None
            before = bisect_right(self._kept, position, key=lambda one: one.position)
            return self._first + before

    def read(self, index: int, limit: int) -> list[Delivery] | None:
        """Return at most `limit` deliveries from an index on; None when they are no longer in memory."""
        with self._lock:
            start = index - self._first
            return None if start < 0 else self._kept[start : start + limit]

    def redact(self, seq: int, envelope: Json) -> None:
        """Replace a delivery by the logged form of its entry, because its contents were deleted."""
        with self._lock:
            for place, one in enumerate(self._kept):
                if one.seq == seq:
                    self._bytes -= len(one.data)
                    self._kept[place] = Delivery(one.position, envelope, seq)
                    self._bytes += len(self._kept[place].data)
