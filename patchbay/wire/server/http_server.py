"""Threads that share one epoll: the thread that gets a readable connection receives, runs the request and answers it.

No request changes its thread on the way, and an idle thread sleeps in the kernel.
Source: https://man7.org/linux/man-pages/man7/epoll.7.html.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
from collections.abc import Callable
from typing import Any

from patchbay.wire.front.event_loop import EventLoop
from patchbay.wire.server.connection import READING, Connection

log = logging.getLogger(__name__)

LINGER_SECONDS = 2.0
"""Seconds that a client has to close its end after the hub has closed its own."""

RETRY_SECONDS = 0.1
"""Seconds until the next try after a connection could not be accepted."""


class HttpServer:
    """Serves the connections of one listening socket, at most `most` at a time, on `threads` threads."""

    def __init__(
        self, listener: socket.socket, front: Callable[[Any, Any], None], threads: int, most: int, loop: EventLoop
    ) -> None:
        self.front = front
        self.is_stopping = False
        self._listener = listener
        self._threads = threads
        self._most = most
        self._loop = loop
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._accepting = threading.Lock()
        self._is_full = False
        self._listening = listener.fileno()
        self._changed = threading.Condition()
        self._end = os.eventfd(0)
        self._running = 0  # threads
        host, port = listener.getsockname()[:2]
        self.name = f"{host}:{port}"
        listener.setblocking(False)

    def start(self) -> None:
        """Begin to serve."""
        self._epoll.register(self._listener, select.EPOLLIN | select.EPOLLET)
        self._epoll.register(self._end, select.EPOLLIN)
        self._running = self._threads
        for number in range(self._threads):
            threading.Thread(target=self._run, name=f"http-{number}", daemon=True).start()

    def _run(self) -> None:
        poll, connections, listener = self._epoll.poll, self._connections, self._listening
        while True:
            for descriptor, events in poll(-1, 1):
                connection = connections.get(descriptor)
                try:
                    if connection is not None:
                        connection.handle(events)
                    elif descriptor == listener:
                        self._accept()
                    elif descriptor == self._end:
                        self._leave()
                        return
                except Exception:
                    log.exception("a connection failed")
                    if connection is not None:
                        connection.give_up()

    def _leave(self) -> None:
        """Note that a thread ends; the last one closes what told it to."""
        with self._changed:
            self._running -= 1
            if not self._running:
                os.close(self._end)

    def _accept(self) -> None:
        with self._accepting:
            while not self.is_stopping:
                if len(self._connections) >= self._most:
                    self._is_full = True
                    if len(self._connections) >= self._most:
                        return
                self._is_full = False
                try:
                    accepted, peer = self._listener.accept()
                except BlockingIOError:
                    return
                except ConnectionAbortedError:
                    continue
                except OSError as problem:  # no free descriptor: `overflow.py` answers
                    log.debug("no connection was accepted: %s", problem)
                    self._is_full = True
                    self._loop.call_later(RETRY_SECONDS, self._listen_again)
                    return
                try:
                    self._begin(accepted, peer)
                except OSError as problem:
                    log.warning("a connection was accepted and could not be served: %s", problem)
                    self._connections.pop(accepted.fileno(), None)
                    accepted.close()

    def _begin(self, accepted: socket.socket, peer: Any) -> None:
        accepted.setblocking(False)
        if accepted.family != socket.AF_UNIX:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = f"[{peer[0]}]:{peer[1]}" if accepted.family == socket.AF_INET6 else f"{peer[0]}:{peer[1]}"
        connection = Connection(self, accepted, client)
        self._connections[connection.descriptor] = connection
        self._epoll.register(connection.descriptor, READING)

    def arm(self, descriptor: int, events: int) -> None:
        """Wait for these events of a connection; those that are there already are reported again."""
        try:
            self._epoll.modify(descriptor, events)
        except OSError:  # it is closed
            return

    def leave_alone(self, connection: Connection) -> None:
        """Wait for no events of a connection any more."""
        try:
            self._epoll.unregister(connection.descriptor)
        except OSError:
            return

    def forget(self, connection: Connection) -> None:
        """Close a connection that is at its end."""
        if self._connections.get(connection.descriptor) is connection:
            self.leave_alone(connection)
            del self._connections[connection.descriptor]
            connection.socket.close()
            if self._is_full:
                self._is_full = False
                self._listen_again()
            if self.is_stopping:
                with self._changed:
                    self._changed.notify_all()

    def _listen_again(self) -> None:
        """Look for connections that wait to be accepted."""
        if not self.is_stopping:
            self.arm(self._listening, select.EPOLLIN | select.EPOLLET)

    def close_later(self, connection: Connection) -> None:
        """Close a connection whose client does not close it within LINGER_SECONDS."""
        self._loop.call_later(LINGER_SECONDS, connection.end_now)

    def stop(self) -> None:
        """Accept no connection any more, end those without a request, and each other one after its answer."""
        if self.is_stopping:
            return
        self.is_stopping = True
        with self._accepting:
            self._epoll.unregister(self._listener)
            self._listener.close()
        self._loop.call_later(LINGER_SECONDS, self._end_unfinished)
        for connection in [*self._connections.values()]:
            connection.go_on()

    def _end_unfinished(self) -> None:
        """End the connections whose next request has not arrived."""
        for connection in [*self._connections.values()]:
            connection.end_if_idle()

    def wait_closed(self) -> None:
        """Wait until all connections are closed, and end the threads. Call it once, after `stop`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._connections)
        os.eventfd_write(self._end, 1)
