"""Collection of blobs: delete the contents that are no longer reachable, after a grace time.

A blob is reachable when a name points to it, or did so in the past, or when a reachable content mentions its CID. Past
values of tools' state (`state/...`) are the exception: only present values are reachable. Parts of the hub that store
CIDs elsewhere, such as in the journal, supply functions that list them (`sources`).

No writer loses a blob: `put` and `renew` restart the grace time of a blob, writers put or renew each blob before they
point a name at it, and a batch is deleted only if no name has moved since the reachable contents were listed. A process
that is killed during a collection leaves complete batches: SQLite deletes a batch in one transaction.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from patchbay.cid import canonical
from patchbay.errors import BadCid, ContentError, StaleUpdate
from patchbay.store import Collected, Store

log = logging.getLogger(__name__)

STATE = "state/"
"""Prefix of the names of tools' state, whose past values are not reachable."""

COLLECTION_SECONDS = 3600.0
"""Seconds between two collections of a running hub."""

BATCH = 200
"""Number of blobs that one transaction deletes: writers wait for some milliseconds."""

MOVES_PER_PAGE = 1000
"""Number of moves of names that are read at once."""

MAX_ROUNDS = 20
"""How often a collection lists the reachable contents again after a name has moved."""

_CIDS = re.compile(
    rb"bafkrei[a-z2-7]{52}"
    rb"|(?<![A-Za-z0-9])(?:m[A-Za-z0-9+/]{48}+|[A-Za-z0-9_-]{49,80}+)(?![A-Za-z0-9])"
)
"""The usual spelling, base64 (`m`), and any other word of a CID's length; `canonical` decides."""


def newest_move(store: Store) -> int:
    """Return the sequence number of the last move of a name, 0 without one."""
    newest = store.names.past("", 1)
    return newest[0].seq if newest else 0


Source = Callable[[], Iterable[str]]
"""Lists the CIDs that a part of the hub stores elsewhere, such as in the journal."""


class Collector:
    """Collects the unreachable blobs of one store. `grace` is in seconds. For one thread at a time.

    Each of the `sources` lists further CIDs that are reachable, such as those in the rows of the audit chain.
    """

    def __init__(self, store: Store, grace: float, *sources: Source) -> None:
        self.sources = list(sources)
        self._store = store
        self._grace = grace
        self._mentions: dict[str, tuple[str, ...]] = {}

    def preview(self) -> Collected:
        """Return how many blobs `collect` would delete now, and their bytes. Changes nothing."""
        return self._store.collection.size(self._unreachable(self._store.now() - self._grace)[0])

    def collect(self) -> Collected:
        """Delete unreachable blobs older than the grace time; return how many, and their bytes.

        Stops early, and leaves the rest to the next collection, when names move all the time. Raises ContentError of a
        failing store.
        """
        before = self._store.now() - self._grace
        count = size = 0
        for _ in range(MAX_ROUNDS):
            unreachable, seq = self._unreachable(before)
            try:
                for batch in _batches(unreachable):
                    done = self._store.collection.collect(batch, before, seq)
                    count, size = count + done.count, size + done.size
            except StaleUpdate:
                continue
            break
        return Collected(count, size)

    def collect_and_give_back(self, ending: threading.Event) -> None:
        """Collect, then give the space back to the system in short steps, until `ending` is set."""
        done = self.collect()
        if done.count:
            log.info("%d blobs that were no longer needed are deleted (%d bytes)", done.count, done.size)
        while self._store.collection.give_back() and not ending.is_set():
            pass

    def _unreachable(self, before: float) -> tuple[list[str], int]:
        """Return the old blobs that are unreachable, and the newest move of names that was read."""
        old = self._store.collection.older_than(before)
        seq = newest_move(self._store)
        if not old:
            return [], seq
        listed = set[str]().union(*(source() for source in self.sources))
        reached = set(self._named_cids(seq)) | listed.difference(self._store.blobs.missing(listed))
        waiting = list(reached)
        while waiting:
            fresh = [each for each in self._mentioned_by(waiting.pop()) if each not in reached]
            reached.update(fresh)
            waiting += fresh
        return [cid for cid in old if cid not in reached], seq

    def _named_cids(self, seq: int) -> Iterator[str]:
        """Yield the CIDs to which names point, or pointed up to a move."""
        yield from self._store.names.all().values()
        before = seq + 1
        while moves := self._store.names.past("", MOVES_PER_PAGE, before):
            yield from (move.cid for move in moves if move.cid is not None and not move.name.startswith(STATE))
            before = moves[-1].seq

    def _mentioned_by(self, cid: str) -> tuple[str, ...]:
        """Return the CIDs in a content. A content never changes, so it is read once."""
        found = self._mentions.get(cid)
        if found is None:
            try:
                found = cids_in(self._store.blobs.get(cid))
            except ContentError:  # a missing or damaged blob mentions no CID; it is read again next time
                return ()
            self._mentions[cid] = found
        return found


def cids_in(data: bytes) -> tuple[str, ...]:
    """Return the canonical CIDs in some bytes, each once, in every spelling (base 16, 32, 58, 64)."""
    return tuple(dict.fromkeys(_canonical(each.decode() for each in _CIDS.findall(data))))


def _canonical(texts: Iterable[str]) -> Iterator[str]:
    """Yield the canonical form of the texts that are CIDs."""
    for text in texts:
        try:
            yield canonical(text)
        except BadCid:
            continue


def _batches(cids: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(cids)
    while batch := list(islice(rest, BATCH)):
        yield batch
