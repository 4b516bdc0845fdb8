"""Closes the connections of slow and idle clients.

A thread of the web server that sends to a client that does not read, or waits for a request that does not arrive,
cannot be interrupted, and the server does not reveal the connection of a request. So the deadlines apply to
connections: this module regularly asks the kernel, which counts every byte, about all of them. A connection without
progress is shut down; the server then handles it as closed by the client: it frees the thread and the memory, and
cancels a running call.

The limits: a client that does not read waiting data (`write_timeout`), a request that arrives too slowly, and an idle
connection (both `idle_timeout`). An address with too many connections loses first those without a request, then the
quietest.
Source: CWE-400 (uncontrolled resource consumption).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable

from patchbay.settings import Settings
from patchbay.wire.front.sockets import (
    DESCRIPTORS,
    Counters,
    count_descriptors,
    give_back_memory,
    local_port,
    most_connections,
    peer_of,
    remote_address,
    shut_down,
    sockets,
)
from patchbay.wire.requests.at_work import AtWork

log = logging.getLogger(__name__)

SLOWEST = 1024
"""A request gets one second more than `idle_timeout` to arrive for each of these bytes."""

OFTEN, SOON = 5.0, 0.25
"""Limit in seconds on the time between two checks of the connections; time between two checks of their number."""


class ClientConnection:
    """One connection over time: since when its client makes no progress, and whether the hub has ended it already.

    `client` is its other end, once the hub has ended it.
    """

    __slots__ = ("_acknowledged", "_asking", "_base", "_received", "_stalled", "client", "is_shut_down")

    def __init__(self) -> None:
        self.client = ""
        self.is_shut_down = False
        self._acknowledged = self._received = self._base = -1
        self._stalled: float | None = None
        self._asking: float | None = None

    def late(self, now: Counters, at: float, write: float, idle: float) -> str | None:
        """Return the reason to close this connection at the time `at`, or None. Call it at every check.

        `write` is how long a client may not read, `idle` how long a request may take to arrive; in seconds.
        """
        took, arrived = now.acknowledged != self._acknowledged, now.received != self._received
        self._acknowledged, self._received = now.acknowledged, now.received
        self._note_reading(now, at, took)
        self._note_asking(now, at, took)
        if self._stalled is not None and at - self._stalled >= write:
            return f"its client has not read for {write:g} s"
        # A client that waits for the answer to a complete request sends no bytes.
        if arrived and self._asking is not None and at - self._asking > idle + (now.received - self._base) / SLOWEST:
            return f"a request was still arriving {at - self._asking:.0f} s after it began"
        return None

    def _note_reading(self, now: Counters, at: float, took: bool) -> None:
        """Note since when data waits and the client does not read."""
        if took or not now.pending:
            self._stalled = None
        elif self._stalled is None:
            self._stalled = at

    def _note_asking(self, now: Counters, at: float, took: bool) -> None:
        """Note the time and the first byte of a request that is not being answered yet."""
        answered = now.pending or now.sent_ago <= now.received_ago
        if took or answered:
            self._asking, self._base = None, now.received
        if self._asking is None and not answered:
            self._asking = at


class SlowClientWatch:
    """Watches the accepted connections of this process, which listens on `settings.port`."""

    def __init__(self, settings: Settings, at_work: AtWork) -> None:
        self._port = settings.port
        self._write = settings.write_timeout
        self._idle = settings.idle_timeout
        # A stream without messages is not idle: it sends comments.
        self._quiet = max(settings.idle_timeout, 2 * settings.keepalive)
        self._at_work = at_work
        self._peers: dict[int, ClientConnection | None] = {}
        self._most = most_connections(settings.connections)
        self._seen = 0

    def watch(self) -> None:
        """Check regularly, in a separate thread; log a warning if the system does not support it."""
        if not DESCRIPTORS.is_dir():
            log.warning("this system does not count the bytes of a connection: the hub does not close slow clients")
            return
        threading.Thread(target=self._watch, name="peers", daemon=True).start()

    def _watch(self) -> None:
        never, pause = threading.Event(), min(self._write / 4, self._idle / 4, OFTEN)
        due = time.monotonic() + pause
        while not never.wait(min(pause, SOON)):
            try:
                if time.monotonic() >= due or self._fills_up():
                    self.check_connections()
                    due = time.monotonic() + pause
            except Exception:
                log.exception("checking the connections failed; the hub tries again")

    def _fills_up(self) -> bool:
        """Whether so many new descriptors are open since the last check that an address may have too many."""
        return count_descriptors() - self._seen > self._most // 4

    def check_connections(self) -> None:
        """Check every connection once, and close the late ones."""
        pairs = sockets()
        cut_before = any(peer is not None and peer.is_shut_down for peer in self._peers.values())
        self._peers = {number: self._looked_at(descriptor, number) for descriptor, number in pairs}
        self._at_work.cut_off = {peer.client for peer in self._peers.values() if peer is not None and peer.is_shut_down}
        if sum(peer is not None for peer in self._peers.values()) > self._most:
            self._thin_out(pairs)
        self._seen = count_descriptors()
        if cut_before:
            give_back_memory()  # the memory of the connections closed at the last check is free now

    def _thin_out(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Close the excess connections of each address: first those without a request, then the quietest."""
        found: dict[str, list[tuple[bool, float, int, int]]] = {}
        for descriptor, number in pairs:
            counters = Counters.of(descriptor) if self._peers.get(number) is not None else None
            if counters is not None and counters.open:
                rank = (counters.received > 0, -counters.silent, descriptor, number)
                found.setdefault(remote_address(descriptor) or "", []).append(rank)
        for address, theirs in found.items():
            excess = sorted(theirs)[: max(0, len(theirs) - self._most)] if address else []
            for _, _, descriptor, number in excess:
                shut_down(descriptor, number, whole=True)
            if excess:
                log.info("%d connections from %s are closed: the limit is %d", len(excess), address, self._most)

    def _looked_at(self, descriptor: int, number: int) -> ClientConnection | None:
        """Check one socket, and close it if it is late; return its state, None if this worker did not accept it."""
        if number in self._peers:
            peer = self._peers[number]
        else:
            peer = ClientConnection() if local_port(descriptor) == self._port else None
        counters = Counters.of(descriptor) if peer is not None else None
        if peer is None or counters is None or not counters.open:
            return peer
        why, level = peer.late(counters, time.monotonic(), self._write, self._idle), logging.INFO
        # A connection that was quiet before the oldest running request began cannot be waiting for an answer.
        if why is None and counters.silent > self._quiet + self._at_work.oldest():
            why, level = f"nothing happened for {counters.silent:.0f} s", logging.DEBUG
        if why is not None:
            peer.client = peer_of(descriptor) or ""
            # A request that arrives too slowly gets an error as its answer; other connections get nothing.
            self._at_work.cut_off.add(peer.client)
            address = shut_down(descriptor, number, whole=counters.pending or peer.is_shut_down)
            log.log(level, "the connection from %s is closed: %s", address or "somebody who left", why)
            peer.is_shut_down = True
        return peer
