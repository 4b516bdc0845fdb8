"""All mounts of one hub, in one process.

A StandingConnection belongs to a mount, not to a version of a server: a changed description or list leaves it
unchanged. `keep` never waits; `close` waits until everything has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
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
        self._maintain(None, frozenset(mounts))

    def change(self, ended: Iterable[Mount | Openable], mounts: Iterable[Mount | Openable]) -> None:
        """Maintain further mounts, as `keep` does, and end those of `ended` that are not among them.

        The work is in proportion to these two, not to all mounts.
        """
        self._maintain(frozenset(ended), frozenset(mounts))

    def _maintain(self, ended: frozenset[Mount | Openable] | None, wanted: frozenset[Mount | Openable]) -> None:
        """Maintain the wanted mounts and end the ended ones; None ends all others."""
        with self._lock:
            if self._closed:
                return
            left = self._kept if ended is None else ended
            gone = [self._known.pop(mount) for mount in left - wanted if mount in self._known and mount in self._kept]
            self._kept = (self._kept - left) | wanted
            if len(self._known) - len(self._kept) > MAX_SPARE_CONNECTIONS:
                spare = [mount for mount in self._known if mount not in self._kept]
                gone += [self._known.pop(mount) for mount in spare[: max(0, len(spare) - MAX_SPARE_CONNECTIONS)]]
        for standing in gone:
            standing.stop()
        for mount in wanted:
            standing = self.of(mount)
            standing.make_current()
            if self._is_needed(standing.mount.name):
                standing.start()

    def end(self, mount: Mount | Openable) -> None:
        """End the connection of a mount, and its program; the next `of` makes a new one."""
        with self._lock:
            standing = self._known.pop(mount, None)
        if standing is not None:
            standing.stop()

    def renew(self, servers: Collection[str]) -> None:
        """Let the mounts of these servers connect anew, because a secret that they name has changed."""
        with self._lock:
            outdated = [standing for standing in self._known.values() if standing.mount.name in servers]
        for standing in outdated:
            standing.renew()

    def end_outdated_credentials(self) -> None:
        """End what uses credentials of callers that were disconnected, or whose principal was removed."""
        with self._lock:
            standing_ones = list(self._known.values())
        for standing in standing_ones:
            standing.end_outdated_credentials()

    def close(self) -> None:
        """End all connections and wait for their end."""
        with self._lock:
            self._closed = True
            connections = list(self._known.values())
        for standing in connections:
            standing.stop()
        for standing in connections:
            standing.join(CLOSE_SECONDS)
