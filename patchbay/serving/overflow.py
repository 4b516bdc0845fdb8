"""Answers connections that a worker cannot take, because it has no descriptor left or holds as many as fit.

The web server takes no connection without a free descriptor, and none beyond its limit: clients would wait without an
answer. This module accepts such a connection with a descriptor that it has reserved, answers 503 with Retry-After, and
closes it. `is_short` tells the front to answer the requests of open connections in the same way.
Sources: https://man7.org/linux/man-pages/man2/accept.2.html (EMFILE); RFC 9110, sections 10.2.3 and 15.6.4.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
from contextlib import suppress

from patchbay.wire.front.sockets import DESCRIPTORS, Counters, count_descriptors, local_port, sockets

log = logging.getLogger(__name__)

RESERVED_DESCRIPTORS = 2

CHECK_SECONDS = 0.2
MISSED_CHECKS = 3
"""Checks in a row at which a connection waits: the web servers of all workers leave it."""

LISTENING = 10
"""The state of a listening socket (TCP_LISTEN)."""

MAX_SLACK = 64
"""Limit on the descriptors below the limit of the web server from which on connections are watched."""

MAX_ANSWERS = 256
"""Limit on the connections that are answered at one check."""

REQUEST_SECONDS = 0.01
"""Seconds to wait for the bytes of a request, which must be read: otherwise the client may lose the answer."""

BODY = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,'
    b'"message":"the hub has no free connections or files; try again later"}}'
)
RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
)


class Overflow:
    """Watches the descriptors of this process, and the connections that wait at `port`.

    The web server of the process takes at most `most` connections.
    """

    def __init__(self, port: int, most: int) -> None:
        self._port = port
        self.is_short = False
        self.most = most
        self._base = self._seen = count_descriptors()
        self._ended = threading.Event()
        self._reserved: list[int] = []

    def watch(self) -> None:
        """Begin to watch, in a separate thread; it waits until the web server listens."""
        with suppress(OSError):
            self._reserve()
        threading.Thread(target=self._watch, name="overflow", daemon=True).start()

    def end(self) -> None:
        """Stop watching."""
        self._ended.set()

    def _watch(self) -> None:
        listener: int | None = None
        missed = 0
        while not self._ended.wait(CHECK_SECONDS):
            try:
                self._check_descriptors()
                listener = listener or self._find_listener()
                if listener is None:
                    continue
                missed = missed + 1 if self._takes_none() and _has_waiting(listener) else 0
                if missed >= MISSED_CHECKS:
                    self._answer(listener)
            except Exception:
                log.exception("checking the descriptors failed; the hub tries again")

    def _takes_none(self) -> bool:
        """Whether the web server may be at its limit, and has taken no connection since the last check.

        Below its limit it takes each connection at once. Other descriptors come and go, so the limit is not exact.
        """
        before, self._seen = self._seen, count_descriptors()
        limit = self._base + self.most - min(self.most // 4, MAX_SLACK) - RESERVED_DESCRIPTORS
        return self.is_short or limit <= self._seen <= before

    def _check_descriptors(self) -> None:
        """Set `is_short`, and log its changes."""
        short = not _has_free()
        if short and not self.is_short:
            log.warning(
                "this worker has no free descriptors (%d are open): requests get 503; start the hub after"
                " `ulimit -n NUMBER` with a larger number, or with LimitNOFILE in its systemd unit",
                count_descriptors(),
            )
        self.is_short = short
        with suppress(OSError):
            self._reserve()

    def _reserve(self) -> None:
        while len(self._reserved) < RESERVED_DESCRIPTORS:
            self._reserved.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def _find_listener(self) -> int | None:
        """Return the descriptor of the listening socket; None before the web server listens, or without /proc."""
        if not DESCRIPTORS.is_dir():
            return None
        return next((descriptor for descriptor, _ in sockets() if self._listens(descriptor)), None)

    def _listens(self, descriptor: int) -> bool:
        counters = Counters.of(descriptor)
        return counters is not None and counters.state == LISTENING and local_port(descriptor) == self._port

    def _answer(self, listener: int) -> None:
        """Accept the connections that wait, and refuse each."""
        for _ in range(MAX_ANSWERS):
            if self._ended.is_set() or not self._reserved or not self._listens(listener):
                return
            os.close(self._reserved.pop())
            connection = _accept(listener)
            if connection is None:  # none waits any more, or the web server got the descriptor first
                return
            with connection:
                _refuse(connection)
            with suppress(OSError):
                self._reserve()


def _accept(listener: int) -> socket.socket | None:
    """Accept a connection without waiting. The descriptor belongs to the web server, so it is not closed here."""
    listening = socket.socket(fileno=listener)
    try:
        listening.setblocking(False)  # as the web server does
        return listening.accept()[0]
    except OSError:
        return None
    finally:
        listening.detach()


def _has_free() -> bool:
    """Whether this process may open a descriptor."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _has_waiting(listener: int) -> bool:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return bool(poll.poll(0))


def _refuse(connection: socket.socket) -> None:
    """Answer 503 to a connection, whatever it has asked."""
    with suppress(OSError):
        connection.settimeout(REQUEST_SECONDS)
        with suppress(TimeoutError):
            connection.recv(65536)
        connection.sendall(RESPONSE)
        connection.shutdown(socket.SHUT_WR)
        with suppress(TimeoutError):
            connection.recv(65536)
