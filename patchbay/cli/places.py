"""Where things are on this machine: tokens of sign-ins, kept contracts. Sources: JN-14."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from patchbay.settings import Settings
from patchbay.store import Blobs, Store


def tokens(environ: Mapping[str, str]) -> Path:
    """The folder of the tokens of sign-ins."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
    return Path(base) / "patchbay" / "tokens"


class Contracts:
    """The blobs of the hub's store, opened at the first use: most commands need none."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store: Store | None = None
        self._lock = threading.Lock()

    @property
    def _blobs(self) -> Blobs:
        with self._lock:
            if self._store is None:
                from patchbay.stores import open_store

                self._store = open_store(self._settings.store, self._settings.data)
            return self._store.blobs

    def put(self, data: bytes, cid: str | None = None) -> str:
        """See `Blobs.put`."""
        return self._blobs.put(data, cid)

    def get(self, cid: str) -> bytes:
        """See `Blobs.get`."""
        return self._blobs.get(cid)

    def missing(self, cids: Iterable[str]) -> list[str]:
        """See `Blobs.missing`."""
        return self._blobs.missing(cids)

    def count(self) -> int:
        """See `Blobs.count`."""
        return self._blobs.count()

    def close(self) -> None:
        """Close the store, when it was opened."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None
