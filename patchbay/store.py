"""The interfaces of the store: blobs, names, journal and bus, and the store that holds the four.

Rules: a CID never changes, only `names` change; bytes are verified at each write and each read; a store knows no
servers. The implementations are in `stores/` and share one set of tests. Many threads use a store at once and, with
SQLite, several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Protocol, Self

from patchbay.events import Mailbox

DATABASE_FILE = "patchbay.sqlite3"
"""The file in the data folder that holds the whole SQLite store."""

CLOSED = "the store is closed"
"""What `Store.check` says after `close`, and what every use of a closed store says."""


@dataclass(frozen=True, slots=True)
class NameChange:
    """One change of one name. `cid` is None if the change removed the name; `at` is Unix time in seconds."""

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


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A blob without its bytes: `at` is the time of its last `put` or `renew`."""

    cid: str
    at: float
    size: int


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry of the journal as it is stored, with the end of its lifetime (None: unlimited)."""

    seq: int
    topic: str
    data: bytes
    at: float
    until: float | None


class Blobs(Protocol):
    """Immutable bytes under their CID, each with the time of its last `put` or `renew`.

    A collection deletes a blob only when that time is long enough ago. So a writer that has put or renewed every blob
    it needs has the whole grace time to point a name at them.
    """

    def put(self, data: bytes, cid: str | None = None) -> str:
        """Store bytes; return their CID. With `cid`, raises CorruptBlob unless the bytes are its content."""
        ...

    def get(self, cid: str) -> bytes:
        """Return the bytes of a CID (an identity CID carries its own). Raises BadCid, MissingBlob, CorruptBlob."""
        ...

    def get_many(self, cids: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes that one read of canonical CIDs finds undamaged; the others are left out, for `get`."""
        ...

    def missing(self, cids: Iterable[str]) -> list[str]:
        """Return the CIDs that the store lacks, in the given order, each once. Raises BadCid."""
        ...

    def count(self) -> int:
        """Return the number of blobs."""
        ...

    def put_many(self, contents: Iterable[bytes]) -> list[str]:
        """Keep several contents in one transaction, all or none; answers their CIDs in the same order."""
        ...

    def renew(self, cids: Iterable[str]) -> None:
        """Start the grace time of these blobs again. CIDs without a blob are left out. Raises BadCid."""
        ...


class Names(Protocol):
    """Names (`servers/echo`, `variables/mcps`) that point to CIDs, with the history of their changes."""

    def get(self, name: str) -> str | None: ...

    def all(self, prefix: str = "") -> dict[str, str]:
        """Return every name with this prefix and its CID, sorted by name."""
        ...

    def move(
        self, changes: Mapping[str, str | None], who: str, why: str, expected: Mapping[str, str | None] | None = None
    ) -> int:
        """Point names to other CIDs (None removes a name) in one transaction; return the `seq` of the last change.

        A name that already points to its new CID gets no entry; without any entry this returns the present seq.
        With `expected`, the names change only if they point to these CIDs (None: absent) in the same transaction.
        Raises MissingBlob for a CID that the store lacks, StaleUpdate if an expected name points to another CID.
        """
        ...

    def past(
        self, name: str = "", limit: int = 100, before: int | None = None, prefixes: Sequence[str] = (), after: int = 0
    ) -> list[NameChange]:
        """Return the changes of one name (or of all names) with a seq between `after` and `before`, newest first.

        `prefixes` limits them to names that begin with one of the prefixes.
        """
        ...


class Journal(Protocol):
    """Append-only topics of bytes: streams, ended sessions, records."""

    def now(self) -> float:
        """The same as `Store.now`: the time that the `at` of an entry is compared with."""
        ...

    def append(self, topic: str, data: bytes, keep: float | None = None) -> int:
        """Append an entry; return its seq. `keep` is its lifetime in seconds (None: unlimited)."""
        ...

    def append_all(self, entries: Sequence[tuple[str, bytes, float | None]], last: Mapping[str, int]) -> list[int]:
        """Append entries (topic, data, keep) in one transaction; return their seqs, in order.

        `last` has topics with the seq of the newest entry that each must have (0: an empty topic), in the same
        transaction. Raises StaleUpdate if another writer was first.
        """
        ...

    def read(self, topic: str, after: int = 0, limit: int = 1000) -> list[JournalEntry]:
        """Return the entries of a topic with a seq greater than `after`, oldest first."""
        ...

    def last(self, topic: str) -> int:
        """Return the seq of a topic's newest entry, 0 for an empty topic."""
        ...

    def tail(self, topic: str, limit: int = 1000, before: int | None = None) -> list[JournalEntry]:
        """Return the entries of a topic, newest first; `before` limits them to smaller seqs."""
        ...

    def trim(self, topic: str, max_bytes: int) -> int:
        """Delete a topic's oldest entries until the rest has at most `max_bytes` bytes of data; return their number."""
        ...

    def remove(self, topic: str, before: int) -> int:
        """Delete the entries of a topic with a seq smaller than `before`; return their number."""
        ...

    def remove_all(self, before: Mapping[str, int]) -> int:
        """Delete, in each of these topics, the entries with a seq smaller than the given one, in one transaction.

        Return the number of deleted entries. Does not wait for the disk.
        """
        ...

    def sweep(self) -> int:
        """Delete expired entries; return their number."""
        ...


class Subscription(Mailbox, Protocol):
    """One reader of bus topics. Its queue is bounded: a full queue drops its oldest message.

    `dropped` counts the dropped messages; `closed` says that the subscription or the store was closed.
    """

    dropped: int

    def get(self, timeout: float) -> tuple[str, bytes] | None:
        """Return the next (topic, message); None after `timeout` seconds or when closed."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Bus(Protocol):
    """Hints between threads and processes. A message may be lost; the journal holds every entry."""

    def publish(self, topic: str, message: bytes = b"") -> None: ...

    def publish_here(self, topic: str, message: bytes = b"") -> None:
        """Deliver a message in this process only."""
        ...

    def subscribe(self, topics: Sequence[str], size: int = 256) -> Subscription:
        """Subscribe to topics; a topic that ends in `*` matches by prefix. The subscription is active on return."""
        ...

    def problem(self) -> str | None:
        """Return None while messages reach other processes, or a sentence where another service does not take them.

        A store whose `check` fails needs no sentence here.
        """
        ...


class Collection(Protocol):
    """Deletes blobs that are no longer needed, and gives the space back. The caller decides which blobs are needed."""

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


class Jobs(Protocol):
    """A queue of jobs, each of which one worker of all machines runs."""

    def defer(self, fields: Mapping[str, Any]) -> None:
        """Store a job, a JSON object."""
        ...

    def work(
        self,
        run: Callable[[Mapping[str, Any]], Mapping[str, Any] | None],
        on_lost: Callable[[Mapping[str, Any], int], bool],
        may_look: Callable[[], bool],
        at_once: int,
        ending: Event,
    ) -> None:
        """Run jobs, at most `at_once` at a time, until `ending`; then return when the running ones have ended.

        `run` runs a job to its end and returns None, or returns the fields with which another worker may take it.
        `on_lost` gets each job of a dead worker, with the number of its attempts, while `may_look`; it returns whether
        the job runs again.
        """
        ...


class Transfer(Protocol):
    """Reads and writes rows as they are, with their seqs and times: for a copy of a whole store (`stores/copying.py`).

    The lists are in order and begin behind `after`. Each write is one transaction, and rows that are there stay.
    """

    def blobs(self, after: str, limit: int) -> list[StoredBlob]: ...

    def entries(self, after: int, limit: int) -> list[StoredEntry]: ...

    def moves(self, after: int, limit: int) -> list[NameChange]: ...

    def last(self) -> tuple[str, int, int]:
        """Return the greatest CID of a blob, and the greatest seqs of an entry and of a move; empty and 0 without."""
        ...

    def write_blobs(self, blobs: Sequence[tuple[StoredBlob, bytes]]) -> None: ...

    def write_entries(self, entries: Sequence[StoredEntry]) -> None: ...

    def write_moves(self, moves: Sequence[NameChange]) -> None:
        """Write moves, and point the names where they lead."""
        ...

    def newest_seq(self) -> int:
        """Return the greatest seq that an entry ever had, also if that entry was deleted."""
        ...

    def set_newest_seq(self, seq: int) -> None: ...


class Store(Protocol):
    """All parts of a store, opened and closed together."""

    blobs: Blobs
    names: Names
    journal: Journal
    bus: Bus
    collection: Collection
    transfer: Transfer | None
    """None for a store that keeps nothing."""
    is_shared: bool
    """Whether hubs on other machines may use this store, now or later."""

    @property
    def jobs(self) -> Jobs | None:
        """The jobs of the store; None for a store that only this machine uses."""
        ...

    def now(self) -> float:
        """Return the present time of the store: Unix time in seconds.

        Compare every time that another process may have stored with this one: the clocks of two machines differ. It
        costs no query and does not fail while the store is away.
        """
        ...

    def order_token(self) -> bytes:
        """Return 16 bytes that are greater than all that processes on this store got before.

        Messages of the bus do not arrive in the order in which processes sent them. Raises ContentError of a failing
        store.
        """
        ...

    def check(self) -> str | None:
        """Return None if the store works, else a sentence with the error."""
        ...

    def close(self) -> None: ...


def is_database_address(kind: str) -> bool:
    """Whether the setting `store` is the address of a PostgreSQL database."""
    return kind.startswith(("postgresql://", "postgres://"))


def store_exists(kind: str, folder: Path) -> bool:
    """Whether there is a store of this kind: in `folder`, or at the address of a database, which is not asked.

    Creates no file and loads no store module.
    """
    return is_database_address(kind) or (kind == "sqlite" and (folder / DATABASE_FILE).is_file())
