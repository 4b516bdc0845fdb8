"""The store of the local hub, for commands of the client.

A command that only reads does not create a store: without one it uses an empty store in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace

from patchbay.settings import Settings
from patchbay.store import Blobs, Store, store_exists
from patchbay.topics import CONTRACTS


def read_only_settings(settings: Settings) -> Settings:
    """Return the settings; for a hub without a store, with a store in memory, which creates no files."""
    return settings if store_exists(settings.store, settings.data) else replace(settings, store="memory")


class ContractBlobs:
    """The blobs of the hub's store, opened at first use. Reading does not create a store."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reading = read_only_settings(settings)
        self._store: Store | None = None
        self._lock = threading.Lock()

    def _blobs(self, create: bool = False) -> Blobs:
        with self._lock:
            if create and self._store is not None and self._reading is not self._settings:
                self._store.close()
                self._store = None
            if create:
                self._reading = self._settings
            if self._store is None:
                from patchbay.stores import open_store

                self._store = open_store(self._reading.store, self._reading.data, blobs=self._reading.blobs)
            return self._store.blobs

    def put(self, data: bytes, cid: str | None = None) -> str:
        """See `Blobs.put`. The name `contracts/<cid>` points to the blob, so that it is not collected."""
        name = self._blobs(create=True).put(data, cid)
        assert self._store is not None
        self._store.names.move({f"{CONTRACTS}{name}": name}, "command line", "a contract of a profile")
        return name

    def put_many(self, contents: Iterable[bytes]) -> list[str]:
        """See `Blobs.put_many`."""
        return [self.put(data) for data in contents]

    def renew(self, cids: Iterable[str]) -> None:
        """See `Blobs.renew`."""
        self._blobs(create=True).renew(cids)

    def get(self, cid: str) -> bytes:
        """See `Blobs.get`."""
        return self._blobs().get(cid)

    def get_many(self, cids: Iterable[str]) -> dict[str, bytes]:
        """See `Blobs.get_many`."""
        return self._blobs().get_many(cids)

    def missing(self, cids: Iterable[str]) -> list[str]:
        """See `Blobs.missing`."""
        return self._blobs().missing(cids)

    def count(self) -> int:
        """See `Blobs.count`."""
        return self._blobs().count()

    def close(self) -> None:
        """Close the store if it is open."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None
