"""Which names and contents describe the hub: these alone are shown to every caller.

Rules: a name describes the hub when its prefix is in DESCRIBING; everything else (what tools store, marks of the
watched folder) is the operator's. A content belongs to the configuration when such a name points to it, now or in the
past, or when a content of the configuration mentions its CID. Knowing a CID is no permission.
Sources: DESIGN sections 4 and 11; ACCESS section 1.
"""

from __future__ import annotations

from collections import deque
from threading import Lock

from patchbay.catalogue.contents.links import mentioned
from patchbay.cid import content_in
from patchbay.errors import ContentError
from patchbay.store import Store
from patchbay.topics import BOOT, PAGE_TEMPLATES, REVOKED, ROOT, SERVED, SERVERS, VARIABLES

DESCRIBING = (SERVERS, VARIABLES, PAGE_TEMPLATES, SERVED, REVOKED, ROOT, BOOT)
"""Prefixes of the names that describe the hub; `served/` holds the versions of servers, `revoked/` what was ended."""


PAGE = 500
"""Moves that are read at once."""


def describes_hub(name: str) -> bool:
    """Whether every caller may see a name and its past."""
    return name.startswith(DESCRIBING)


class Configured:
    """The contents that the configuration of one store reaches. Safe for many threads.

    A content is read once; the next question reads only what moved since the last one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._reached: set[str] = set()
        self._unread: deque[str] = deque()
        self._seq = 0

    def reaches(self, cid: str) -> bool:
        """Whether the present or past configuration reaches a content, by its canonical CID."""
        if content_in(cid) is not None:  # whoever has an identity CID has its content
            return True
        with self._lock:
            self._read_moves()
            while cid not in self._reached and self._unread:
                self._read(self._unread.popleft())
            return cid in self._reached

    def _read_moves(self) -> None:
        """With the lock: take in the moves since the last question."""
        newest = self._store.names.past("", 1)
        if not newest or newest[0].seq == self._seq:
            return
        before = newest[0].seq + 1
        while moves := self._store.names.past("", PAGE, before, DESCRIBING, self._seq):
            for move in moves:
                if move.cid is not None and move.cid not in self._reached:
                    self._reached.add(move.cid)
                    if move.name != ROOT:
                        self._unread.append(move.cid)
            before = moves[-1].seq
        self._seq = newest[0].seq

    def _read(self, cid: str) -> None:
        """With the lock: take in what a content mentions. What cannot be read reaches nothing."""
        try:
            mentions = mentioned(self._store.blobs.get(cid))
        except ContentError:
            return
        for each in mentions:
            if each not in self._reached:
                self._reached.add(each)
                self._unread.append(each)
