"""All mounts of one hub, in one process.

A StandingConnection belongs to a mount, not to a version of a server: a changed description or list leaves it
unchanged. `keep` never waits; `close` waits until everything has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import overload

from patchbay.upstreams.configuration import Mount
from patchbay.upstreams.connections.standing_connection import StandingConnection
from patchbay.upstreams.standing import MountContext, Openable, Standing

CLOSE_SECONDS = 20.0
"""Seconds that the end of all mounts may take."""

MAX_SPARE_CONNECTIONS = 64
"""Maximum number of connections of mounts that are not current (of older versions)."""


class StandingConnections:
    """Standing connections by mount. `needed` says which servers' connections begin before their first use."""

    def __init__(self, context: MountContext, needed: Callable[[str], bool] = lambda name: True) -> None:
        self._context = context
        self._is_needed = needed
        self._known: dict[Mount | Openable, Standing] = {}
        self._kept: frozenset[Mount | Openable] = frozenset()
        self._lock = threading.Lock()
        self._closed = False

    @overload
    def of(self, mount: Mount) -> StandingConnection: ...

    @overload
    def of(self, mount: Openable) -> Standing: ...

    def of(self, mount: Mount | Openable) -> Standing:
        """Return the standing connection of a mount; it is started when the mount is current or called."""
        with self._lock:
            standing = self._known.get(mount)
            if standing is None:
                made = (
                    StandingConnection(mount, self._context) if isinstance(mount, Mount) else mount.open(self._context)
                )
                standing = self._known[mount] = made
                if self._closed:
                    standing.stop()
            return standing

    def keep(self, mounts: Iterable[Mount | Openable]) -> None:
        """Maintain exactly these mounts: end others, start the needed ones; the rest start at their first use."""
        wanted = frozenset(mounts)
        with self._lock:
            if self._closed:
                return
            gone = [self._known.pop(mount) for mount in self._kept - wanted if mount in self._known]
            spare = [mount for mount in self._known if mount not in wanted]
            gone += [self._known.pop(mount) for mount in spare[: max(0, len(spare) - MAX_SPARE_CONNECTIONS)]]
            self._kept = wanted
            older = [standing for mount, standing in self._known.items() if mount not in wanted]
        for standing in older:
            standing.set_current(False)
        for standing in gone:
            standing.stop()
        for mount in wanted:
            standing = self.of(mount)
            standing.set_current(True)
            if self._is_needed(standing.mount.name):
                standing.start()

    def end(self, mount: Mount | Openable) -> None:
        """End the connection of a mount, and its program; the next `of` makes a new one."""
        with self._lock:
            standing = self._known.pop(mount, None)
        if standing is not None:
            standing.stop()

    def close(self) -> None:
        """End all of them and wait for their end."""
        with self._lock:
            self._closed = True
            connections = list(self._known.values())
        for standing in connections:
            standing.stop()
        for standing in connections:
            standing.join(CLOSE_SECONDS)
