"""Contents by CID as callers may read them: the configuration for everybody, a large result for who has its key.

Everything else answers as if it were not there.
Sources: DESIGN sections 4 and 11; ACCESS section 1.
"""

from __future__ import annotations

from patchbay.catalogue.contents.configuration import Configured
from patchbay.catalogue.contents.results import Results
from patchbay.cid import canonical
from patchbay.errors import MissingBlob
from patchbay.store import Store


class Contents:
    """The contents of one store. Safe to use from many threads."""

    def __init__(self, store: Store, results: Results) -> None:
        self._store = store
        self.configured = Configured(store)
        self.results = results

    def is_public(self, cid: str) -> bool:
        """Whether everybody may read a content: the configuration reaches it. Raises BadCid."""
        return self.configured.reaches(canonical(cid))

    def read(self, cid: str, key: str, principal: str) -> bytes:
        """The bytes of a CID for a principal with a key (empty: none).

        Raises BadCid, CorruptBlob, and MissingBlob for what is not there and for what this caller may not read.
        """
        name = canonical(cid)
        if key and (found := self.results.read(name, key, principal)) is not None:
            return found
        if not self.configured.reaches(name):
            raise MissingBlob([name])
        return self._store.blobs.get(name)
