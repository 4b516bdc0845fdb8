"""The lag of the bus: how long messages of other processes take to arrive, by the time of the store.

Each process sends its time every `SEND_SECONDS`, and the others compare it with the time at which the message arrives.
Runs only on a store that several machines use.
"""

from __future__ import annotations

import logging
import threading
import time

import orjson

from patchbay.coordination.nodes import own_name
from patchbay.errors import PatchbayError
from patchbay.store import Store
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
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to send and to measure, on a thread."""
        if self._store.is_shared:
            self._thread = threading.Thread(target=self._run, name="bus-lag", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ending.set()
        self._store.bus.publish_here(BUS_LAG)
        if self._thread is not None:
            self._thread.join(SEND_SECONDS)

    def milliseconds(self) -> int | None:
        """Return the longest lag of a lately arrived message; None if no process has sent one."""
        since = time.monotonic() - WINDOW_SECONDS
        lags = [lag for arrived, lag in self._seen.values() if arrived > since]
        return round(max(lags) * 1000) if lags else None

    def _run(self) -> None:
        due = 0.0
        with self._store.bus.subscribe([BUS_LAG], 4096) as mailbox:
            while not (self._ending.is_set() or mailbox.closed):
                try:
                    if time.monotonic() >= due:
                        due = time.monotonic() + SEND_SECONDS
                        self._store.bus.publish(BUS_LAG, orjson.dumps([own_name(), self._store.now()]))
                    got = mailbox.get(max(0.0, due - time.monotonic()))
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
