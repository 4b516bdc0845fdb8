"""A store in memory: for tests, for trials, and for a hub without stored data.

It behaves as every store, but its content ends with the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, islice

from patchbay.cid import canonical, cid_of, content_in, verify
from patchbay.errors import MissingBlob, StaleUpdate
from patchbay.store import (
    CLOSED,
    Blobs,
    Bus,
    Collected,
    Collection,
    Jobs,
    Journal,
    JournalEntry,
    NameChange,
    Names,
    Transfer,
)
from patchbay.stores.bus import LocalBus, machine_order_token


class MemoryBlobs:
    """Blobs in a dictionary. Only writes verify the bytes, because no other process can change them."""

    def __init__(self, lock: threading.RLock) -> None:
        self.lock = lock
        self.contents: dict[str, bytes] = {}
        self.times: dict[str, float] = {}

    def put(self, data: bytes, cid: str | None = None) -> str:
        name = cid_of(data) if cid is None else verify(cid, data)
        if cid is None or content_in(name) is None:
            with self.lock:
                self.contents.setdefault(name, bytes(data))
                self.times[name] = time.time()
        return name

    def put_many(self, contents: Iterable[bytes]) -> list[str]:
        return [self.put(data) for data in contents]

    def renew(self, cids: Iterable[str]) -> None:
        names = [canonical(cid) for cid in cids]
        with self.lock:
            self.times |= dict.fromkeys((name for name in names if name in self.contents), time.time())

    def get(self, cid: str) -> bytes:
        name = canonical(cid)
        found = self.contents.get(name)
        data = content_in(name) if found is None else found
        if data is None:
            raise MissingBlob([name])
        return data

    def get_many(self, cids: Iterable[str]) -> dict[str, bytes]:
        return {cid: data for cid in cids if (data := self.contents.get(cid)) is not None}

    def missing(self, cids: Iterable[str]) -> list[str]:
        names = dict.fromkeys(canonical(cid) for cid in cids)
        return [name for name in names if name not in self.contents and content_in(name) is None]

    def count(self) -> int:
        return len(self.contents)


class MemoryNames:
    """Names in a dictionary, their changes in a list."""

    def __init__(self, lock: threading.RLock, blobs: Blobs) -> None:
        self._blobs = blobs
        self._lock = lock
        self._now: dict[str, str] = {}
        self._past: list[NameChange] = []

    def get(self, name: str) -> str | None:
        return self._now.get(name)

    def newest_move(self) -> int:
        """The `seq` of the last move, 0 before the first."""
        return len(self._past)

    def all(self, prefix: str = "") -> dict[str, str]:
        with self._lock:
            return {name: self._now[name] for name in sorted([one for one in self._now if one.startswith(prefix)])}

    def move(
        self, changes: Mapping[str, str | None], who: str, why: str, expected: Mapping[str, str | None] | None = None
    ) -> int:
        wanted = {name: None if cid is None else canonical(cid) for name, cid in changes.items()}
        with self._lock:
            missing = self._blobs.missing(cid for cid in wanted.values() if cid is not None)
            if missing:
                raise MissingBlob(missing, why)
            for name, cid in (expected or {}).items():
                if self._now.get(name) != (None if cid is None else canonical(cid)):
                    raise StaleUpdate(f"{name} was changed meanwhile")
            at = time.time()
            for name, cid in wanted.items():
                if self._now.get(name) == cid:
                    continue
                self._past.append(NameChange(len(self._past) + 1, name, cid, at, who, why))
                if cid is None:
                    del self._now[name]
                else:
                    self._now[name] = cid
            return len(self._past)

    def past(
        self,
        name: str = "",
        limit: int = 100,
        before: int | None = None,
        prefixes: Sequence[str] = (),
        after: int = 0,
    ) -> list[NameChange]:
        with self._lock:
            older = self._past[max(0, after) :] if before is None else self._past[max(0, after) : max(0, before - 1)]
            named = (move for move in reversed(older) if not name or move.name == name)
            begun = (move for move in named if not prefixes or move.name.startswith(tuple(prefixes)))
            return list(islice(begun, max(0, limit)))


class MemoryCollection:
    """Deletes blobs. One lock holds for blobs and names: no name moves while blobs are deleted."""

    def __init__(self, blobs: MemoryBlobs, names: MemoryNames) -> None:
        self._blobs = blobs
        self._names = names

    def older_than(self, at: float) -> list[str]:
        with self._blobs.lock:
            return sorted(
                (name for name, put in self._blobs.times.items() if put < at), key=self._blobs.times.__getitem__
            )

    def size(self, cids: Iterable[str]) -> Collected:
        with self._blobs.lock:
            sizes = [len(self._blobs.contents[name]) for name in set(cids) if name in self._blobs.contents]
        return Collected(len(sizes), sum(sizes))

    def collect(self, cids: Sequence[str], before: float, seq: int) -> Collected:
        with self._blobs.lock:
            if self._names.newest_move() != seq:
                raise StaleUpdate("a name was changed meanwhile")
            sizes = []
            for name in cids:
                if self._blobs.times.get(name, before) < before:
                    del self._blobs.times[name]
                    sizes.append(len(self._blobs.contents.pop(name)))
            return Collected(len(sizes), sum(sizes))

    def give_back(self, whole: bool = False) -> int:
        return 0


class MemoryJournal:
    """Topics as lists of entries, each with the time when it expires."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seq = 0
        self._topics: dict[str, list[tuple[float, JournalEntry]]] = {}

    def now(self) -> float:
        return time.time()

    def append(self, topic: str, data: bytes, keep: float | None = None) -> int:
        return self.append_all([(topic, data, keep)], {})[0]

    def append_all(self, entries: Sequence[tuple[str, bytes, float | None]], last: Mapping[str, int]) -> list[int]:
        at = time.time()
        with self._lock:
            for topic, expected in last.items():
                found = self._topics.get(topic)
                if expected != (found[-1][1].seq if found else 0):
                    raise StaleUpdate(f"{topic} has a newer entry")
            seqs = []
            for topic, data, keep in entries:
                until = float("inf") if keep is None else at + keep
                self._seq += 1
                self._topics.setdefault(topic, []).append((until, JournalEntry(self._seq, topic, bytes(data), at)))
                seqs.append(self._seq)
            return seqs

    def read(self, topic: str, after: int = 0, limit: int = 1000) -> list[JournalEntry]:
        with self._lock:
            found = [entry for _, entry in self._topics.get(topic, ()) if entry.seq > after]
        return found[: max(0, limit)]

    def last(self, topic: str) -> int:
        with self._lock:
            entries = self._topics.get(topic)
            return entries[-1][1].seq if entries else 0

    def tail(self, topic: str, limit: int = 1000, before: int | None = None) -> list[JournalEntry]:
        with self._lock:
            newest = reversed(self._topics.get(topic, ()))
            older = (entry for _, entry in newest if before is None or entry.seq < before)
            return list(islice(older, max(0, limit)))

    def trim(self, topic: str, max_bytes: int) -> int:
        with self._lock:
            entries = self._topics.get(topic, [])
            sizes = accumulate(len(entry.data) for _, entry in reversed(entries))
            kept = sum(1 for size in sizes if size <= max_bytes)
            dropped = len(entries) - kept
            del entries[:dropped]
            return dropped

    def remove(self, topic: str, before: int) -> int:
        with self._lock:
            entries = self._topics.get(topic, [])
            removed = sum(1 for _, entry in entries if entry.seq < before)
            del entries[:removed]
            return removed

    def remove_all(self, before: Mapping[str, int]) -> int:
        return sum(self.remove(topic, seq) for topic, seq in before.items())

    def sweep(self) -> int:
        now, dropped = time.time(), 0
        with self._lock:
            for topic, entries in tuple(self._topics.items()):
                left = [row for row in entries if row[0] > now]
                dropped += len(entries) - len(left)
                if left:
                    self._topics[topic] = left
                else:
                    del self._topics[topic]
        return dropped


class MemoryStore:
    """Blobs, names, journal and bus in memory."""

    is_shared = False
    jobs: Jobs | None = None

    def __init__(self) -> None:
        lock = threading.RLock()
        blobs = MemoryBlobs(lock)
        names = MemoryNames(lock, blobs)
        self.blobs: Blobs = blobs
        self.names: Names = names
        self.collection: Collection = MemoryCollection(blobs, names)
        self.journal: Journal = MemoryJournal()
        self.transfer: Transfer | None = None
        self._local = LocalBus()
        self.bus: Bus = self._local
        self._closed = False

    def now(self) -> float:
        return time.time()

    def order_token(self) -> bytes:
        return machine_order_token()

    def check(self) -> str | None:
        return CLOSED if self._closed else None

    def close(self) -> None:
        self._closed = True
        self._local.close()
