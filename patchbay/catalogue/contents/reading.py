"""Read contents by CID: configuration for every caller, a large result for the caller that has its key.

Any other content is reported as missing.
"""

from __future__ import annotations

from typing import Protocol

from patchbay.catalogue.contents.configuration import ConfigurationContents
from patchbay.catalogue.contents.results import Results
from patchbay.cid import canonical
from patchbay.errors import MissingBlob
from patchbay.store import Store


class ReadableContents(Protocol):
    """The contents that a caller may read by CID. `Contents` has the meaning of each method."""

    def is_public(self, cid: str) -> bool: ...

    def is_own_result(self, cid: str, key: str, principal: str) -> bool: ...

    def read(self, cid: str, key: str, principal: str) -> bytes: ...

    def read_link(self, uri: str, principal: str) -> bytes | None: ...


class Contents:
    """The readable contents of one store. Thread-safe."""

    def __init__(self, store: Store, results: Results) -> None:
        self._store = store
        self.configured = ConfigurationContents(store)
        self.results = results

    def is_public(self, cid: str) -> bool:
        """Whether every caller may read a content, because the configuration reaches it. Raises BadCid."""
        return self.configured.reaches(canonical(cid))

    def is_own_result(self, cid: str, key: str, principal: str) -> bool:
        """Whether this hub made the key for this CID and this principal. Raises BadCid."""
        return self.results.is_own(canonical(cid), key, principal)

    def read_link(self, uri: str, principal: str) -> bytes | None:
        """Return the bytes of a link to a large result or an upload of this principal; None for any other text."""
        return self.results.read_link(uri, principal)

    def read(self, cid: str, key: str, principal: str) -> bytes:
        """Return the bytes of a CID for a principal with a key (empty: without one).

        Raises BadCid, CorruptBlob, and MissingBlob for a content that is missing or that this caller may not read.
        """
        name = canonical(cid)
        if key and (found := self.results.read(name, key, principal)) is not None:
            return found
        if not self.configured.reaches(name):
            raise MissingBlob([name])
        return self._store.blobs.get(name)
