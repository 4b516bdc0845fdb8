"""Lets a worker wait until it serves the lists that another worker has announced.

Each worker of a hub builds the servers for itself, and the first one announces a change to all listeners of the hub. A
client that lists at once may reach a worker that still builds: it would get the old list, and no further announcement.
So a request waits until this worker serves what was announced. If that takes too long, it gets the old list, and this
worker announces the change once more when it serves it: on all hubs, because the client may listen at another one.

A list is compared with the journal each time. A call is not: it follows the messages of the bus, and reads the journal
only after one, or when the last reading is old, so that it makes no query on its way.
"""

from __future__ import annotations

import threading
import time

import orjson

from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.versions import listing_cid, lists_cid
from patchbay.errors import ContentError
from patchbay.store import Subscription
from patchbay.topics import ACCESS, ANNOUNCED_ACCESS, CHANGED, CHANGES, LISTS

WAIT_SECONDS = 1.0
"""Seconds that requests wait for one announcement, at most; afterwards they get what this worker serves, and the
announcement is repeated when this worker has caught up."""

POLL_SECONDS = 0.01
"""Seconds between two looks at the servers of this worker."""

CURRENT_SECONDS = 5.0
"""Seconds after which a call reads the journal without a message: the bus may have lost one."""


class AnnouncedLists:
    """The announcements of a hub, compared with the servers of this process. Safe to use from many threads."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._store = catalogue.store
        self._start = self._store.journal.last(CHANGES)
        self._settled: dict[str, int] = {}
        self._never = threading.Event()
        self._lock = threading.Lock()
        self._messages: Subscription | None = None
        self._heard = 0
        self._read = -1, 0.0
        self._late: dict[str, set[str]] = {}
        self._announcing = threading.Lock()
        catalogue.after_refresh.append(self._announce_late)

    def follow(self) -> None:
        """Do what `wait` does if the bus told of a change since, or nothing was read for CURRENT_SECONDS."""
        try:
            heard = self._count_messages()
        except ContentError:
            return
        known, at = self._read
        if known != heard or time.monotonic() > at + CURRENT_SECONDS:
            self.wait("")
            self._read = heard, time.monotonic()

    def wait(self, name: str) -> bool:
        """Wait until the lists of a server (or of all servers, without a name) are those that were announced last.

        Without a new announcement this is one short read. Requests wait WAIT_SECONDS once for an announcement. Return
        whether there was one.
        """
        try:
            return self._wait(name)
        except ContentError:
            return False  # the store cannot be read: this worker serves what it has

    def _count_messages(self) -> int:
        """Return the number of changes that the bus has told of; the first use subscribes."""
        messages = self._messages
        if messages is None:
            with self._lock:
                if self._messages is None:
                    self._messages = self._store.bus.subscribe([f"{CHANGED}*"])
                messages = self._messages
        while messages.get(0) is not None:
            with self._lock:
                self._heard += 1
        return self._heard

    def _wait(self, name: str) -> bool:
        newest, since = self._store.journal.last(CHANGES + name), self._settled.get(name, self._start)
        if newest <= since:
            return False
        announced: dict[str, set[str]] = {}
        for entry in self._store.journal.read(CHANGES + name, since):
            change = orjson.loads(entry.data)
            announced.setdefault(change.get("server", ""), set()).update(change.get("kinds", ()))
        end = time.monotonic() + WAIT_SECONDS
        names = set(announced)
        while (names := {each for each in names if not self._is_current(each)}) and time.monotonic() < end:
            self._never.wait(POLL_SECONDS)
        if names:
            with self._announcing:
                for each in names:
                    self._late.setdefault(each, set()).update(announced[each])
            self._announce_late()  # this worker may have caught up since the last look
        self._settled[name] = newest
        return True

    def _announce_late(self) -> None:
        """Announce again what a request got too early and this worker serves now. Raises ContentError."""
        if not self._late:
            return
        with self._announcing:
            current = {name: kinds for name, kinds in self._late.items() if self._is_current(name)}
            self._catalogue.announce_again(current)
            for name in current:
                del self._late[name]

    def _is_current(self, name: str) -> bool:
        """Whether this worker serves the announced lists of a server; without a name, the listing of all servers."""
        names = self._store.names
        if not name:
            return names.get(LISTS) == listing_cid(self._catalogue.listing) or names.get(LISTS) is None
        if self._catalogue.access_cid not in (names.get(ANNOUNCED_ACCESS), names.get(ACCESS)):
            return False  # another list for some callers
        server = self._catalogue.find_any(name)
        return names.get(LISTS + name) == (lists_cid(server) if server is not None else None)
