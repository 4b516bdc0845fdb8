"""The lag of the bus: how long messages of other processes take to arrive, by the time of the store.

Each process sends its time every `SEND_SECONDS`, and the others compare it with the time at which the message arrives.
Runs only on a store that several machines use.
"""

from __future__ import annotations

import logging
import time

import orjson

from patchbay.coordination.mailbox_loop import MailboxLoop
from patchbay.coordination.nodes import own_name
from patchbay.errors import PatchbayError
from patchbay.store import Store, Subscription
from patchbay.topics import BUS_LAG

log = logging.getLogger(__name__)

KEPT_AS = "/bus-lag"
"""The name under which the hub holds the lag of its process; no server can have it."""

SEND_SECONDS = 5.0
"""Seconds between two messages of one process."""

WINDOW_SECONDS = 30.0
"""Seconds in which a message counts."""


class BusLag:
    """The lag of the bus as this process sees it. Safe to use from many threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, tuple[float, float]] = {}
        self._due = 0.0
        self._loop = MailboxLoop(
            "bus-lag", store.bus, [BUS_LAG], self._measure, "the lag of the bus is not measured", size=4096
        )

    def start(self) -> None:
        """Begin to send and to measure, on a thread."""
        if self._store.is_shared:
            self._loop.start()

    def close(self) -> None:
        """End the thread."""
        self._loop.close(SEND_SECONDS)

    def milliseconds(self) -> int | None:
        """Return the longest lag of a lately arrived message; None if no process has sent one."""
        since = time.monotonic() - WINDOW_SECONDS
        lags = [lag for arrived, lag in self._seen.values() if arrived > since]
        return round(max(lags) * 1000) if lags else None

    def _measure(self, mailbox: Subscription) -> None:
        """Send the time when it is due, and wait for the message of another process until it is due again."""
        try:
            if time.monotonic() >= self._due:
                self._due = time.monotonic() + SEND_SECONDS
                self._store.bus.publish(BUS_LAG, orjson.dumps([own_name(), self._store.now()]))
            got = mailbox.get(max(0.0, self._due - time.monotonic()))
            if got is not None and got[1]:
                self._note(got[1])
        except PatchbayError as problem:
            log.debug("the lag of the bus is not measured: %s", problem)

    def _note(self, message: bytes) -> None:
        name, sent = orjson.loads(message)
        if name != own_name():
            now = time.monotonic()
            # Processes that were replaced send nothing more, and new ones have other names.
            kept = {one: seen for one, seen in self._seen.items() if seen[0] > now - WINDOW_SECONDS}
            self._seen = {**kept, name: (now, max(0.0, self._store.now() - sent))}
