"""Connections that are kept: one for each reach, however many records or threads want it.

Sources: REQUIREMENTS JN-5 (one connection for all records of a batch).
"""

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
    """Open connections by reach. `opener` opens one; `Connection.open` with the same options for all by default."""

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
        """The connection to a server, opened when there is none or it has ended.

        Others who want the same wait for it. Raises what `Connection.open` raises, RuntimeError after `close`.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("these connections were closed")
            place = self._slots.setdefault(target, _Slot())
        with place.lock:
            if place.connection is not None and place.connection.closed:
                place.connection.close()
                place.connection = None
            if place.connection is None:
                place.connection = self._open(target)
            return place.connection

    def close(self) -> None:
        """End all connections, at the same time; none can be had afterwards."""
        with self._lock:
            self._closed = True
            places, self._slots = list(self._slots.values()), {}
        if not places:
            return
        with ThreadPoolExecutor(min(len(places), 32), "closing") as crew:
            list(crew.map(_close_slot, places))


def _close_slot(place: _Slot) -> None:
    with place.lock:
        if place.connection is not None:
            place.connection.close()
            place.connection = None
