"""What is remembered: blobs, names, journal, bus. Four small seams and the store that holds them.

Rules: a CID never changes, so only `names` moves; bytes are verified when written and when read;
nothing here knows what a server is. The fillers live in `stores/` and share one test body.
A store is used from many threads at once and, in SQLite, from several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeVar

DATABASE_FILE = "patchbay.sqlite3"
"""The file in the data folder that holds everything, for a store in SQLite."""


@dataclass(frozen=True, slots=True)
class NameChange:
    """One change of one name. `cid` is None where the name was taken away; `at` is Unix time in seconds."""

    seq: int
    name: str
    cid: str | None
    at: float
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One entry of a journal topic; `seq` grows within the whole journal and is never used twice."""

    seq: int
    topic: str
    data: bytes
    at: float


@dataclass(frozen=True, slots=True)
class Collected:
    """How many blobs were deleted, or could be, and how many bytes of content they have."""

    count: int
    size: int


class Blobs(Protocol):
    """Immutable bytes under their CID, each with the time of its last `put` or `renew`.

    A collection deletes a blob only when that time is long enough ago. So a writer that has put or renewed every blob
    it needs has the whole grace time to point a name at them.
    """

    def put(self, data: bytes, cid: str | None = None) -> str:
        """Keep bytes; answers their CID. With `cid`, raises CorruptBlob unless the bytes are its content."""
        ...

    def get(self, cid: str) -> bytes:
        """The bytes of a CID (identity CIDs carry their own). Raises BadCid, MissingBlob, CorruptBlob."""
        ...

    def missing(self, cids: Iterable[str]) -> list[str]:
        """Those of the CIDs that are not here, in the order given, each once. Raises BadCid."""
        ...

    def count(self) -> int:
        """How many blobs are kept."""
        ...

    def put_many(self, contents: Iterable[bytes]) -> list[str]:
        """Keep several contents in one transaction, all or none; answers their CIDs in the same order."""
        ...

    def renew(self, cids: Iterable[str]) -> None:
        """Start the grace time of these blobs again. CIDs without a blob are left out. Raises BadCid."""
        ...


class Names(Protocol):
    """Moving names (`servers/echo`, `variables/mcps`) that point to CIDs, with their past."""

    def get(self, name: str) -> str | None: ...

    def all(self, prefix: str = "") -> dict[str, str]:
        """Every name with this prefix and its CID, sorted by name."""
        ...

    def move(
        self, changes: Mapping[str, str | None], who: str, why: str, expected: Mapping[str, str | None] | None = None
    ) -> int:
        """Point names elsewhere (None takes one away), all or none; answers the `seq` of the last move.

        A change to what already stands is left out; nothing to change answers the present seq.
        With `expected` only if these names still point there (None: to nothing), seen in the same moment.
        Raises MissingBlob when a CID is not in the store, StaleUpdate when an expected one points elsewhere.
        """
        ...

    def past(
        self,
        name: str = "",
        limit: int = 100,
        before: int | None = None,
        prefixes: Sequence[str] = (),
        after: int = 0,
    ) -> list[NameChange]:
        """Moves of one name (or of all names) with a seq between `after` and `before`, newest first.

        With `prefixes` only those of names that begin with one of them.
        """
        ...


class Journal(Protocol):
    """Append-only topics of bytes: streams, ended sessions, records."""

    def append(self, topic: str, data: bytes, keep: float | None = None, last: int | None = None) -> int:
        """Append an entry; answers its seq. `keep` is how many seconds it must last (None: for ever).

        With `last` only while that is the seq of the topic's newest entry (0: it has none), seen in the same moment.
        Raises StaleUpdate when another writer was first.
        """
        ...

    def read(self, topic: str, after: int = 0, limit: int = 1000) -> list[JournalEntry]:
        """Entries of a topic with a seq greater than `after`, oldest first."""
        ...

    def last(self, topic: str) -> int:
        """The seq of a topic's newest entry, 0 when it has none."""
        ...

    def tail(self, topic: str, limit: int = 1000, before: int | None = None) -> list[JournalEntry]:
        """Entries of a topic, newest first; with `before`, those with a smaller seq."""
        ...

    def trim(self, topic: str, most: int) -> int:
        """Drop a topic's oldest entries until what is left has at most `most` bytes of data; answers how many."""
        ...

    def sweep(self) -> int:
        """Drop entries whose time is over; answers how many."""
        ...


class Subscription(Protocol):
    """One reader of bus topics. Its queue is bounded: when it is full the oldest message is dropped.

    `dropped` counts them; `closed` says that the reader or the store was closed.
    """

    dropped: int
    closed: bool

    def get(self, timeout: float) -> tuple[str, bytes] | None:
        """The next (topic, message), or None after `timeout` seconds or when closed."""
        ...

    def wait(self, timeout: float) -> None:
        """Wait until there is a message, or it is closed, no longer than `timeout` seconds."""
        ...

    def call_when_ready(self, callback: Callable[[], None]) -> bool:
        """Call back once, from whichever thread, when there is a message or it is closed.

        False when that is so now: then nothing is called.
        """
        ...

    def cancel_call(self) -> bool:
        """Forget the callback; False when it was called, or is being called."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Wait:
    """In place of an item of a generator: it has nothing to do before `mailbox` has a message or `seconds` are over.

    What runs the generator waits, with a thread or without, and asks it for the next item.
    """

    mailbox: Subscription
    seconds: float


Item = TypeVar("Item")


def wait_blocking(steps: Iterable[Item | Wait]) -> Iterator[Item]:
    """The items of a generator that waits; holds the thread while it waits. Closing it closes the generator."""
    try:
        for step in steps:
            if isinstance(step, Wait):
                step.mailbox.wait(step.seconds)
            else:
                yield step
    finally:
        closing = getattr(steps, "close", None)
        if closing is not None:
            closing()


class Bus(Protocol):
    """Hints between threads and processes. A message may be lost; whoever needs all of them reads the journal."""

    def publish(self, topic: str, message: bytes = b"") -> None: ...

    def subscribe(self, topics: Sequence[str], size: int = 256) -> Subscription:
        """Listen to topics; one that ends in `*` matches by prefix. Registered when this returns."""
        ...


class Collection(Protocol):
    """Deletes blobs that are no longer needed, and gives the space back. Which are needed, the caller knows."""

    def older_than(self, at: float) -> list[str]:
        """The CIDs of blobs whose last `put` or `renew` was before `at` (Unix time in seconds), oldest first."""
        ...

    def size(self, cids: Iterable[str]) -> Collected:
        """How many of these canonical CIDs have a blob, and how many bytes these blobs have together."""
        ...

    def collect(self, cids: Sequence[str], before: float, seq: int) -> Collected:
        """Delete those of these canonical CIDs whose last `put` or `renew` was before `before`, in one transaction.

        Raises StaleUpdate, and deletes nothing, when a name has moved since the move `seq`: then the caller has to
        look again which blobs are needed.
        """
        ...

    def give_back(self, whole: bool = False) -> int:
        """Give unused space back to the file system; answers how many bytes.

        A short step by default, so that writers wait for milliseconds. With `whole`, all of it: writers wait meanwhile.
        """
        ...


class Store(Protocol):
    """All of them together, opened and closed as one."""

    blobs: Blobs
    names: Names
    journal: Journal
    bus: Bus
    collection: Collection

    def check(self) -> str | None:
        """None when the store answers, else a sentence that says what is wrong."""
        ...

    def close(self) -> None: ...


def store_exists(kind: str, folder: Path) -> bool:
    """Whether a store of this kind was made in `folder` before. Creates nothing, and loads no store."""
    return kind == "sqlite" and (folder / DATABASE_FILE).is_file()
