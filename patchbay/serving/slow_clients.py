"""The other ends of a worker's connections: those that do not move are cut off.

A thread of the web server that sends to a reader that does not read, or waits for a request that does not arrive,
cannot be interrupted; and the server tells nobody which connection a request came by. So the deadlines are those of
connections, and the kernel, which counts every byte, is asked now and then about all of them. One that stands still is
shut down, whereupon the server ends what hangs on it as if the other end had closed it: the thread and the memory come
back, and a running call is told.

An address that has more connections than it may loses those that never asked for anything, then the quietest.
Three things are not waited for: a reader that takes nothing of what there is for it (`write_timeout`), a request
that arrives too slowly, and a connection on which nothing happens (both `idle_timeout`).
Sources: THREATS 0.2 (M9, M17), X5, X6; SPEC-DIGEST 1.11.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from patchbay.serving.sockets import (
    DESCRIPTORS,
    Counters,
    count_descriptors,
    give_back_memory,
    local_port,
    most_connections,
    remote_address,
    shut_down,
    sockets,
)
from patchbay.settings import Settings

log = logging.getLogger(__name__)

SLOWEST = 1024
"""Bytes for which a request gets a second more than `idle_timeout` to arrive."""

OFTEN, SOON = 5.0, 0.25
"""Most seconds between two looks at the connections; between two at how many there are."""

AT_WORK = "patchbay.at_work"
"""Name in the environ of the AtWork of this worker; absent where nothing is cut off."""


class ClientConnection:
    """One connection over time: since when its other end has stood still. `told` says that it was cut off already."""

    __slots__ = ("_acknowledged", "_asking", "_base", "_received", "_stalled", "told")

    def __init__(self) -> None:
        self.told = False
        self._acknowledged = self._received = self._base = -1
        self._stalled: float | None = None
        self._asking: float | None = None

    def late(self, now: Counters, at: float, write: float, idle: float) -> str | None:
        """Why this connection is to be cut off, if it is. Call it again and again, at the time `at`.

        `write` is how long a reader may take nothing, `idle` how long a request may take to arrive; in seconds.
        """
        took, arrived = now.acknowledged != self._acknowledged, now.received != self._received
        self._acknowledged, self._received = now.acknowledged, now.received
        self._note_reading(now, at, took)
        self._note_asking(now, at, took)
        if self._stalled is not None and at - self._stalled >= write:
            return f"its reader took nothing for {write:g} s"
        # Whoever waits for the answer to a whole request sends nothing meanwhile.
        if arrived and self._asking is not None and at - self._asking > idle + (now.received - self._base) / SLOWEST:
            return f"a request was still arriving {at - self._asking:.0f} s after it began"
        return None

    def _note_reading(self, now: Counters, at: float, took: bool) -> None:
        """Since when there is something to take, and nothing was taken."""
        if took or not now.pending:
            self._stalled = None
        elif self._stalled is None:
            self._stalled = at

    def _note_asking(self, now: Counters, at: float, took: bool) -> None:
        """Since when a request arrives, or has arrived, that is not being answered; and from which byte on."""
        answered = now.pending or now.sent_ago <= now.received_ago
        if took or answered:
            self._asking, self._base = None, now.received
        if self._asking is None and not answered:
            self._asking = at


class AtWork:
    """WSGI: hands requests on to `app`, and knows how long the oldest has been in work. `patience` is in seconds.

    A request is not in work while its body is still to come, nor once its answer has begun.
    """

    def __init__(self, app: Callable[[Any, Any], Iterable[bytes]], patience: float) -> None:
        self._app = app
        self.patience = patience
        self._begun: dict[int, float] = {}

    def __call__(self, environ: MutableMapping[str, Any], start_response: Any) -> Iterable[bytes]:
        thread = threading.get_ident()
        environ[AT_WORK] = self
        self._begun[thread] = time.monotonic()
        try:
            return self._app(environ, start_response)
        finally:
            del self._begun[thread]

    def apart(self, read: Callable[[Any, int], bytes], stream: Any, wanted: int) -> bytes:
        """Read the body of this thread's request, which is not in work meanwhile."""
        thread = threading.get_ident()
        del self._begun[thread]
        try:
            return read(stream, wanted)
        finally:
            self._begun[thread] = time.monotonic()

    def oldest(self) -> float:
        """Seconds since the oldest request in work began; 0 without any."""
        begun = self._begun.copy().values()
        return time.monotonic() - min(begun) if begun else 0.0


class SlowClientWatch:
    """Watches the accepted connections of this process, which listens on `settings.port`."""

    def __init__(self, settings: Settings, oldest: Callable[[], float]) -> None:
        self._port = settings.port
        self._write = settings.write_timeout
        self._idle = settings.idle_timeout
        # A stream with nothing to say is not idle: it sends a comment now and then.
        self._quiet = max(settings.idle_timeout, 2 * settings.keepalive)
        self._oldest = oldest
        self._peers: dict[int, ClientConnection | None] = {}
        self._most = most_connections(settings.connections)
        self._seen = 0

    def watch(self) -> None:
        """Look again and again, in a thread of its own; where the kernel tells nothing, say so and do nothing."""
        if not DESCRIPTORS.is_dir():
            log.warning("this system does not say how many bytes a connection moved: slow clients are not cut off")
            return
        threading.Thread(target=self._watch, name="peers", daemon=True).start()

    def _watch(self) -> None:
        never, pause = threading.Event(), min(self._write / 4, self._idle / 4, OFTEN)
        due = time.monotonic() + pause
        while not never.wait(min(pause, SOON)):
            try:
                if time.monotonic() >= due or self._fills_up():
                    self.look()
                    due = time.monotonic() + pause
            except Exception:
                log.exception("the connections could not be looked at; this is tried again")

    def _fills_up(self) -> bool:
        """Whether so many descriptors more are open than at the last look that an address may have too many."""
        return count_descriptors() - self._seen > self._most // 4

    def look(self) -> None:
        """Look at every connection once, and cut off those that are late."""
        pairs = sockets()
        cut_before = any(peer is not None and peer.told for peer in self._peers.values())
        self._peers = {number: self._looked_at(descriptor, number) for descriptor, number in pairs}
        if sum(peer is not None for peer in self._peers.values()) > self._most:
            self._thin_out(pairs)
        self._seen = count_descriptors()
        if cut_before:
            give_back_memory()  # what those held that were cut off at the last look is free now

    def _thin_out(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Cut off the connections that an address has too many: first those that never asked, then the quietest."""
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
                log.info("%d connections from %s are closed: it may have %d", len(excess), address, self._most)

    def _looked_at(self, descriptor: int, number: int) -> ClientConnection | None:
        """The peer at this socket, which may just have been cut off; None when it was not accepted here."""
        if number in self._peers:
            peer = self._peers[number]
        else:
            peer = ClientConnection() if local_port(descriptor) == self._port else None
        counters = Counters.of(descriptor) if peer is not None else None
        if peer is None or counters is None or not counters.open:
            return peer
        why, level = peer.late(counters, time.monotonic(), self._write, self._idle), logging.INFO
        # Nobody can tell which connection waits for a request in work: none that was silent before the oldest.
        if why is None and counters.silent > self._quiet + self._oldest():
            why, level = f"nothing happened for {counters.silent:.0f} s", logging.DEBUG
        if why is not None:
            # A request that arrives too slowly gets an answer, which says so; nothing more is sent to the others.
            address = shut_down(descriptor, number, whole=counters.pending or peer.told)
            log.log(level, "the connection from %s is closed: %s", address or "somebody who left", why)
            peer.told = True
        return peer
