"""One process at a time refreshes the same tokens: a second use of a rotated refresh token would end all of them.

A lease is an entry of the journal, written only if no other lease is there; it ends by itself after LEASE_SECONDS, for
the case that its process ends.
Source: RFC 9700, section 4.14 (refresh token rotation).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from patchbay.client.errors import Unreachable
from patchbay.errors import StaleUpdate
from patchbay.store import Store

LEASE_SECONDS = 45.0
"""Seconds that a lease holds; a refresh takes less (`STEP_SECONDS` of the client)."""

MAX_WAIT_SECONDS = 60.0
"""Seconds that a process waits for the lease of another one."""


@contextmanager
def hold_lease(store: Store, topic: str) -> Iterator[None]:
    """Hold the only lease of a topic in all processes. Raises Unreachable after MAX_WAIT_SECONDS."""
    journal, until = store.journal, time.monotonic() + MAX_WAIT_SECONDS
    with store.bus.subscribe([topic]) as mailbox:
        while True:
            newest = journal.tail(topic, 1)
            is_free = not newest or newest[0].at + LEASE_SECONDS < store.now()
            last = newest[0].seq if newest else 0
            if is_free and (seq := _write_lease(store, topic, last)):
                break
            if time.monotonic() > until:
                raise Unreachable("another process of this hub has refreshed the tokens for too long: try again")
            mailbox.get(0.0 if is_free else 1.0)
    try:
        yield
    finally:
        journal.remove(topic, seq + 1)
        store.bus.publish(topic)


def _write_lease(store: Store, topic: str, last: int) -> int:
    """Write the lease; return its seq, 0 if another process was first."""
    try:
        return store.journal.append_all([(topic, b"held", LEASE_SECONDS)], {topic: last})[0]
    except StaleUpdate:
        return 0
