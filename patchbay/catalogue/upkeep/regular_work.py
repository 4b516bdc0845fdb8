"""The regular work: expired entries of the journal, and blobs that are no longer needed. One process does it."""

from __future__ import annotations

import threading
import time

from patchbay.catalogue.contents.collection import COLLECTION_SECONDS, Collector
from patchbay.catalogue.upkeep.leases import Lease
from patchbay.store import Store

SWEEP_SECONDS = 60.0
"""Seconds between two removals of expired journal entries."""

LEASE_FACTOR = 1.5
"""The life of a lease in intervals of its work: its holder renews it each time."""


class Upkeep:
    """The upkeep of a store; `ending` is set when the hub stops."""

    def __init__(self, store: Store, collector: Collector, ending: threading.Event) -> None:
        self._store = store
        self._collector = collector
        self._ending = ending
        self._next_sweep = time.monotonic() + SWEEP_SECONDS
        self._sweeping = Lease(store, "sweep", SWEEP_SECONDS * LEASE_FACTOR)
        self._collecting = Lease(store, "collect", COLLECTION_SECONDS * LEASE_FACTOR)

    def sweep(self) -> None:
        """Remove expired journal entries at intervals. Call it often."""
        if time.monotonic() > self._next_sweep:
            self._next_sweep = time.monotonic() + SWEEP_SECONDS
            if self._sweeping.take():
                self._store.journal.sweep()

    def collect(self) -> None:
        """Delete the blobs that are no longer needed, and give their space back in short steps."""
        if self._collecting.take():
            self._collector.collect_and_give_back(self._ending)

    def release(self) -> None:
        """Leave the work to other processes at once."""
        self._sweeping.release()
        self._collecting.release()
