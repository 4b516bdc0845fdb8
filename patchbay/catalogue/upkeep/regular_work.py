"""The regular work: expired entries of the journal, and blobs that are no longer needed. One process does it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from patchbay.catalogue.contents.collection import COLLECTION_SECONDS, Collector
from patchbay.coordination.leases import Lease
from patchbay.errors import StoreAway
from patchbay.store import Store

log = logging.getLogger(__name__)

SWEEP_SECONDS = 60.0
"""Seconds between two removals of expired journal entries."""

WATCH_LEASE_SECONDS = 6.0
"""Life of the lease of the process that watches the servers folder for all hubs on a shared store."""

WATCH_CHECK_SECONDS = 2.0
"""Seconds between two attempts to renew this lease, or to take it from a process that has ended."""

LEASE_FACTOR = 1.5
"""The life of a lease in intervals of its work: its holder renews it each time."""


def run_guarded(run: Callable[[], None]) -> None:
    """Run one round of a thread of the catalogue; log a failure, so that the next round follows."""
    try:
        run()
    except StoreAway as problem:  # the store itself says once that it is away
        log.debug("the catalogue waits: %s", problem)
    except Exception:
        log.exception("the catalogue could not be brought up to date; the next round tries again")


class Upkeep:
    """The upkeep of a store; `ending` is set when the hub stops."""

    def __init__(self, store: Store, collector: Collector, ending: threading.Event) -> None:
        self._store = store
        self._collector = collector
        self._ending = ending
        self._next_sweep = time.monotonic() + SWEEP_SECONDS
        self._sweeping = Lease(store, "sweep", SWEEP_SECONDS * LEASE_FACTOR)
        self._collecting = Lease(store, "collect", COLLECTION_SECONDS * LEASE_FACTOR)
        self._watching = Lease(store, "servers-folder", WATCH_LEASE_SECONDS)
        self._next_watch_check = 0.0
        self._is_watching = False

    def sweep(self) -> None:
        """Remove expired journal entries at intervals. Call it often."""
        if time.monotonic() > self._next_sweep:
            self._next_sweep = time.monotonic() + SWEEP_SECONDS
            if self._sweeping.take():
                self._store.journal.sweep()

    def collect_regularly(self) -> None:
        """Delete the blobs that are no longer needed at intervals, until the hub stops."""
        while not self._ending.wait(COLLECTION_SECONDS):
            run_guarded(self._collect)

    def _collect(self) -> None:
        if self._collecting.take():
            self._collector.collect_and_give_back(self._ending)

    def may_watch(self, folder: Path) -> bool:
        """Whether this process imports the servers of the folder. On a store of one machine every process may.

        On a shared store, a machine without the folder would remove the servers that another one found in it.
        """
        return not self._store.is_shared or (folder.is_dir() and self._watching.take())

    def takes_over_watching(self, folder: Path) -> bool:
        """Renew the lease of the folder's watch, or take it when it has ended; whether it was taken just now. Call it
        often, from the thread that watches.
        """
        if not self._store.is_shared or time.monotonic() < self._next_watch_check:
            return False
        self._next_watch_check = time.monotonic() + WATCH_CHECK_SECONDS
        was_watching, self._is_watching = self._is_watching, self.may_watch(folder)
        return self._is_watching and not was_watching

    def release(self) -> None:
        """Leave the work to other processes at once, for good."""
        for lease in (self._sweeping, self._collecting, self._watching):
            lease.release()

    def begin_release(self) -> None:
        """Leave the work to other processes, without waiting for the store; the end of this process waits for it."""
        threading.Thread(target=self.release, name="leases", daemon=False).start()
