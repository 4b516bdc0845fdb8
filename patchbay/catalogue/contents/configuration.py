"""Which names and contents are configuration of the hub: every caller may read these, and only these.

A name is configuration when its prefix is in DESCRIBING; all other names (values that tools store, records of the
watched folder) are private to the operator. A content is configuration when such a name points to it, now or in the
past, or when another content of the configuration mentions its CID. Knowing a CID gives no permission.
"""

from __future__ import annotations

from collections import deque
from threading import Lock

from patchbay.catalogue.contents.links import cids_in
from patchbay.cid import content_in
from patchbay.errors import ContentError
from patchbay.store import Store
from patchbay.topics import BOOT, PAGE_TEMPLATES, REVOKED, ROOT, SERVED, SERVERS, VARIABLES

CONFIGURATION_PREFIXES = (SERVERS, VARIABLES, PAGE_TEMPLATES, SERVED, REVOKED, ROOT, BOOT)
"""Prefixes of the names that are configuration; `served/` holds versions of servers, `revoked/` revocations."""


MOVES_PER_READ = 500
"""Number of moves that are read at once."""


class ConfigurationContents:
    """The contents that the configuration of one store reaches. Thread-safe.

    Each content is read once; a later question reads only the moves since the last one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._reached: set[str] = set()
        self._unread: deque[str] = deque()
        self._seq = 0

    def reaches(self, cid: str) -> bool:
        """Whether the present or past configuration reaches a content, given by its canonical CID."""
        if content_in(cid) is not None:  # an identity CID contains its content
            return True
        with self._lock:
            self._read_moves()
            while cid not in self._reached and self._unread:
                self._read(self._unread.popleft())
            return cid in self._reached

    def _read_moves(self) -> None:
        """Requires the lock. Read the changes of names since the last call."""
        newest = self._store.names.past("", 1)
        if not newest or newest[0].seq == self._seq:
            return
        before = newest[0].seq + 1
        while moves := self._store.names.past("", MOVES_PER_READ, before, CONFIGURATION_PREFIXES, self._seq):
            for move in moves:
                if move.cid is not None and move.cid not in self._reached:
                    self._reached.add(move.cid)
                    if move.name != ROOT:
                        self._unread.append(move.cid)
            before = moves[-1].seq
        self._seq = newest[0].seq

    def _read(self, cid: str) -> None:
        """Add the CIDs that a content mentions; an unreadable content adds none. The caller holds the lock."""
        try:
            mentions = cids_in(self._store.blobs.get(cid))
        except ContentError:
            return
        for each in mentions:
            if each not in self._reached:
                self._reached.add(each)
                self._unread.append(each)
