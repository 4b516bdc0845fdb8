"""Finds the connections of this process by their other ends, without asking all of them for each.

The web server does not show the descriptor of a connection. So each descriptor is asked once which connection it has;
a later search asks only those that are new. The kernel gives a new connection the lowest free descriptor, so the ones
near it are asked first.
"""

from __future__ import annotations

import os
import threading

from patchbay.wire.front.sockets import DESCRIPTORS, is_socket, number_of, peer_of, sockets

NEAR = 32
"""Descriptors on each side of the lowest free one that are asked before all new ones."""


class ConnectionIndex:
    """The connections of this process by their other ends. Safe to use from many threads.

    `readings` is how often the list of all descriptors was read; `questions` is how many connections were asked.
    """

    def __init__(self) -> None:
        self.readings = self.questions = 0
        self._lock = threading.Lock()
        self._known: dict[int, tuple[int, str]] = {}
        self._found: dict[str, tuple[int, int]] = {}

    def find(self, client: str) -> tuple[int, int] | None:
        """Return descriptor and number of the connection whose other end is `client` (`127.0.0.1:4711`, `[::1]:4711`).

        None where this system does not say, and when the connection is gone.
        """
        host, _, port = client.rpartition(":")
        wanted = f"{host.strip('[]')}:{port}"
        with self._lock:
            return self._look_up(wanted) or self._search_near(wanted) or self._search_all(wanted)

    def _look_up(self, wanted: str) -> tuple[int, int] | None:
        found = self._found.get(wanted)
        return found if found is not None and is_socket(*found) else None

    def _search_near(self, wanted: str) -> tuple[int, int] | None:
        free = os.dup(0)
        os.close(free)
        for descriptor in (*range(free - 1, max(2, free - NEAR - 1), -1), *range(free + 1, free + NEAR + 1)):
            number = number_of(descriptor)
            if number is not None:
                self._note(descriptor, number)
        return self._look_up(wanted)

    def _search_all(self, wanted: str) -> tuple[int, int] | None:
        if not DESCRIPTORS.is_dir():
            return None
        self.readings += 1
        open_now = sockets()
        for descriptor, number in open_now:
            self._note(descriptor, number)
        descriptors = {descriptor for descriptor, _ in open_now}
        self._known = {descriptor: seen for descriptor, seen in self._known.items() if descriptor in descriptors}
        self._found = {peer: pair for peer, pair in self._found.items() if pair[0] in descriptors}
        return self._look_up(wanted)

    def _note(self, descriptor: int, number: int) -> None:
        """Ask a descriptor for its connection, unless it was asked already."""
        known = self._known.get(descriptor)
        if known is not None and known[0] == number:
            return
        if known is not None and self._found.get(known[1], ())[:1] == (descriptor,):
            del self._found[known[1]]
        self.questions += 1
        peer = peer_of(descriptor) or ""
        self._known[descriptor] = (number, peer)
        if peer:
            self._found[peer] = (descriptor, number)


_CONNECTIONS = ConnectionIndex()


def find_connection(client: str) -> tuple[int, int] | None:
    """Return descriptor and number of a connection of this process, as `ConnectionIndex.find` does."""
    return _CONNECTIONS.find(client)
