"""A pool of connections: one per target, shared by all records and threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from patchbay.client.addresses.targets import Target
from patchbay.client.connection.connection import Connection


@dataclass
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: Connection | None = None


class ConnectionPool:
    """Open connections by target. `opener` opens one; `Connection.open` with the same options for all by default."""

    def __init__(self, opener: Callable[[Target], Connection] | None = None, **options: Any) -> None:
        self._open = opener or (lambda target: Connection.open(target, **options))
        self._slots: dict[Target, _Slot] = {}
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> ConnectionPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, target: Target) -> Connection:
        """Return the connection to a server; open one for the first call, and after the connection has ended.

        Other threads that need the same connection wait. Raises the errors of `Connection.open`, RuntimeError after
        `close`.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("this pool of connections is closed")
            slot = self._slots.setdefault(target, _Slot())
        with slot.lock:
            if slot.connection is not None and slot.connection.closed:
                slot.connection.close()
                slot.connection = None
            if slot.connection is None:
                slot.connection = self._open(target)
            return slot.connection

    def close(self) -> None:
        """Close all connections at the same time; afterwards `get` raises RuntimeError."""
        with self._lock:
            self._closed = True
            slots, self._slots = list(self._slots.values()), {}
        if not slots:
            return
        with ThreadPoolExecutor(min(len(slots), 32), "closing") as executor:
            list(executor.map(_close_slot, slots))


def _close_slot(slot: _Slot) -> None:
    with slot.lock:
        if slot.connection is not None:
            slot.connection.close()
            slot.connection = None
