"""Leases: one process of all hubs on a store does a piece of regular work, such as watching the servers folder.

A lease is the newest entry of a topic, written only behind the entry that its writer saw. It ends by the time of the
store, so that a process that was killed or stopped loses it; the holder counts by the monotonic clock from before its
write, so that it stops earlier than the lease ends.
"""

from __future__ import annotations

import logging
import time
from uuid import uuid4

from patchbay.coordination.nodes import own_name
from patchbay.errors import ContentError
from patchbay.store import Store
from patchbay.topics import LEASES

log = logging.getLogger(__name__)


class Lease:
    """The lease of one piece of work, for one thread of one process. `seconds` is its life.

    On a store that only this machine uses it is always held: there the work may be done by several processes. With
    `is_always_needed`, one process does it there too.
    """

    def __init__(self, store: Store, name: str, seconds: float, is_always_needed: bool = False) -> None:
        self._store = store
        self._topic = LEASES + name
        self._seconds = seconds
        self._is_needed = is_always_needed or store.is_shared
        self._holder = f"{own_name()}:{uuid4().hex}".encode()
        self._until = 0.0
        self._is_over = False

    def take(self) -> bool:
        """Take or renew the lease; return whether this process holds it. Renews after a third of its life.

        While the store is away, a lease that was held stays so until shortly before its end.
        """
        if not self._is_needed:
            return True
        if self._is_over:
            return False
        begun = time.monotonic()
        if begun < self._until - self._seconds * 2 / 3:
            return True
        try:
            if self._write():
                self._until = begun + self._seconds
        except ContentError as problem:  # also StaleUpdate: another process was first
            log.debug("the lease %s is not renewed: %s", self._topic, problem)
        return time.monotonic() < self._until

    def release(self) -> None:
        """Let another process take the lease at once; this one does not take it again. Logs a failure of the store."""
        was_held, self._until, self._is_over = self._until > time.monotonic(), 0.0, True
        try:
            if was_held:
                self._remove()
        except ContentError as problem:
            log.info("the lease %s ends by its time: %s", self._topic, problem)

    def _remove(self) -> None:
        newest = self._store.journal.tail(self._topic, 1)
        if newest and newest[0].data == self._holder:
            self._store.journal.remove(self._topic, newest[0].seq + 1)

    def _write(self) -> bool:
        """Write the lease if it is free or this process holds it; return whether it did."""
        newest = self._store.journal.tail(self._topic, 1)
        if newest and newest[0].data != self._holder and newest[0].at + self._seconds > self._store.now():
            self._until = 0.0
            return False
        last = newest[0].seq if newest else 0
        self._store.journal.append_all([(self._topic, self._holder, 2 * self._seconds)], {self._topic: last})
        return True
