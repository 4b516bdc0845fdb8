"""Lets a worker wait until it serves the lists that another worker has announced.

Each worker of a hub builds the servers for itself, and the first one announces a change to all listeners of the hub. A
client that lists at once may reach a worker that still builds: it would get the old list, and no further announcement.
So a request waits until this worker serves what was announced.
"""

from __future__ import annotations

import threading
import time

import orjson

from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.versions import lists_cid
from patchbay.errors import ContentError
from patchbay.topics import CHANGES, LISTS

WAIT_SECONDS = 1.0
"""Seconds that requests wait for one announcement, at most; afterwards they get what this worker serves."""

POLL_SECONDS = 0.01
"""Seconds between two looks at the servers of this worker."""


class AnnouncedLists:
    """The announcements of a hub, compared with the servers of this process. Safe to use from many threads."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._store = catalogue.store
        self._start = self._store.journal.last(CHANGES)
        self._settled: dict[str, int] = {}
        self._never = threading.Event()

    def wait(self, name: str) -> None:
        """Wait until the lists of a server (or of all servers, without a name) are those that were announced last.

        Without a new announcement this is one short read. Requests wait WAIT_SECONDS once for an announcement.
        """
        try:
            self._wait(name)
        except ContentError:
            return  # the store cannot be read: this worker serves what it has

    def _wait(self, name: str) -> None:
        newest, since = self._store.journal.last(CHANGES + name), self._settled.get(name, self._start)
        if newest <= since:
            return
        entries = self._store.journal.read(CHANGES + name, since)
        names = {orjson.loads(entry.data).get("server", "") for entry in entries} - {""}
        end = time.monotonic() + WAIT_SECONDS
        while names and time.monotonic() < end:
            names = {each for each in names if not self._is_current(each)}
            if names:
                self._never.wait(POLL_SECONDS)
        self._settled[name] = newest

    def _is_current(self, name: str) -> bool:
        server = self._catalogue.find_any(name)
        return self._store.names.get(LISTS + name) == (lists_cid(server) if server is not None else None)
