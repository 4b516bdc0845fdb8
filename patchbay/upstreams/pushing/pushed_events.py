"""The event types of one mounted server that offer `push` and no `poll`: the hub streams them into its journal.

A stream begins when somebody reads the event type first, on a connection of its own, and lasts as long as the mount.
Every process may stream: the id of an event makes it one entry. The journal is the buffer that polls, streams and
webhooks read; it is bounded, and has a mark where events may be missing: before the first stream, after a break that
the server cannot replay, and where this process was too slow.
Source: SEP-3415, Push-Based Delivery.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from patchbay.background import BackgroundLoop
from patchbay.errors import PatchbayError
from patchbay.events import Log
from patchbay.jsonrpc import Notification
from patchbay.occurrences.records import record_event, record_gap
from patchbay.occurrences.sources import Batch, EventQuery, JournalSource
from patchbay.store import Store
from patchbay.upstreams.pushing.received_events import MAX_CURSOR, UpstreamEventFailure, is_event

if TYPE_CHECKING:  # at run time it loads the client's HTTP
    from patchbay.client.connection.connection import Connection

log = logging.getLogger(__name__)

MAX_STREAMS = 64
"""Event types of one mounted server that are streamed at once."""

BEGIN_SECONDS = 30.0
"""Seconds that a reader waits for a stream to begin."""

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 60.0
CLIENT_LOGGER = "patchbay.client"
"""The logger of the client's own remarks: it dropped messages because they were not read in time."""


class PushedEvents:
    """The streams of one mount in this process. `connect` opens a connection to its server. Thread-safe."""

    def __init__(self, store: Store, server: str, connect: Callable[[], Connection]) -> None:
        self._store = store
        self._server = server
        self._connect = connect
        self._streams: dict[str, _Stream] = {}
        self._lock = threading.Lock()
        self._is_ended = False

    def want(self, event: str) -> None:
        """Begin to stream an event type, unless it is streamed; wait until the server has confirmed it.

        Raises UpstreamEventFailure with the reason why it is not streamed.
        """
        with self._lock:
            stream = self._streams.get(event)
            if stream is None:
                if self._is_ended or len(self._streams) >= MAX_STREAMS:
                    raise UpstreamEventFailure(
                        f"{event} of {self._server} is not streamed: at most {MAX_STREAMS} event types of a server are"
                    )
                stream = self._streams[event] = _Stream(self._store, self._server, event, self._connect)
                stream.start()
        if not stream.is_active.wait(BEGIN_SECONDS):
            raise UpstreamEventFailure(f"the server behind {self._server} does not stream {event}: {stream.problem}")

    def renew(self) -> None:
        """Open a new connection for each stream, which goes on from the newest event that it has."""
        with self._lock:
            streams = list(self._streams.values())
        for stream in streams:
            stream.disconnect()

    def stop(self) -> None:
        """End all streams, without waiting for their threads."""
        with self._lock:
            self._is_ended = True
            streams = list(self._streams.values())
        for stream in streams:
            stream.stop()


class _Stream:
    """The stream of one event type, on its own thread and connection."""

    def __init__(self, store: Store, server: str, event: str, connect: Callable[[], Connection]) -> None:
        self.is_active = threading.Event()
        self.problem = "it has not answered yet"
        self._store, self._server, self._event, self._connect = store, server, event, connect
        self._pause = FIRST_RETRY_SECONDS
        self._loop = BackgroundLoop(f"events of {server}", self._run, f"the stream of {event} of {server} ends")
        self._connection: Connection | None = None
        self._cursor: str | None = None
        self._has_events = False

    def start(self) -> None:
        """Start the thread."""
        self._loop.start()

    def stop(self) -> None:
        """End the thread and its connection."""
        self._loop.stop()
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection, which ends the request that streams; the thread opens the next one, unless it ends."""
        connection = self._connection
        if connection is not None:
            with suppress(PatchbayError):
                connection.close()

    def _run(self) -> float:
        """Stream until the server ends it; return the seconds until the next attempt."""
        try:
            self._stream()
        except PatchbayError as problem:
            self.problem = problem.message
            log.info("the stream of %s of %s ends: %s", self._event, self._server, problem.message)
        except Exception:
            log.exception("the stream of %s of %s ends", self._event, self._server)
        self._pause = FIRST_RETRY_SECONDS if self._has_events else min(LAST_RETRY_SECONDS, self._pause * 2)
        self._has_events = False
        return self._pause

    def _stream(self) -> None:
        """Open a connection and stream until the server ends it. Raises PatchbayError."""
        with self._connect() as connection:
            self._connection = connection
            if self._loop.ending.is_set():
                return
            params: dict[str, Any] = {"name": self._event, "arguments": {}, "cursor": self._cursor}
            connection.get_result("events/stream", params, timeout=math.inf, on_event=self._take)

    def _take(self, item: object) -> None:
        """Store an event, or the mark of a gap."""
        if isinstance(item, Log) and item.logger == CLIENT_LOGGER:
            record_gap(self._store, self._server, self._event)
        if not isinstance(item, Notification):
            return
        params: Mapping[str, Any] = item.params
        if item.method == "notifications/events/active":
            if not self.is_active.is_set() or params.get("truncated") is True or self._cursor is None:
                record_gap(self._store, self._server, self._event)
            self.is_active.set()
        elif item.method == "notifications/events/event" and is_event(params):
            self._has_events = True
            try:
                record_event(self._store, self._server, self._event, params["data"], params["eventId"])
            except PatchbayError as problem:  # an event that is too large
                log.info("an event of %s is left out: %s", self._server, problem.message)
                record_gap(self._store, self._server, self._event)
        cursor = params.get("cursor")
        if isinstance(cursor, str) and len(cursor) <= MAX_CURSOR:
            self._cursor = cursor


class PushedSource(JournalSource):
    """The events of an event type that is streamed into the journal."""

    waits_for_network = True

    def __init__(self, store: Store, server: str, event: str, pushed: PushedEvents) -> None:
        super().__init__(store, server, event)
        self._event = event
        self._pushed = pushed

    def read(self, cursor: str | None, wanted: EventQuery, limit: int) -> Batch:
        """Return the events behind a cursor. Raises UpstreamEventFailure when the server does not stream."""
        self._pushed.want(self._event)
        return super().read(cursor, wanted, limit)
