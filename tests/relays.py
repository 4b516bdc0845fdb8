"""A TCP relay between a client and a server, which cuts, holds or slows connections where a test wants it."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from typing import Self

PIECE_BYTES = 65536
"""Bytes that are passed on at once."""


class Relay:
    """Passes connections on to `port` of this machine, from a port of the loopback interface or from `listener`.

    `cuts` counts the connections that it has cut; `sent` has what clients sent, piece by piece.
    """

    def __init__(self, port: int, listener: socket.socket | None = None) -> None:
        self._port = port
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()[:2]
        self.cuts = 0
        self.sent: list[bytes] = []
        self._words: tuple[bytes, ...] = ()
        self._times = 0
        self._delay = 0.0
        self._flows = threading.Event()
        self._flows.set()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_answer_to(self, *words: bytes, times: int = 1) -> None:
        """Cut the connection when the server answers the next `times` requests with one of these words, which are
        regular expressions: answers are lost. 0 ends this.
        """
        with self._lock:
            self._words, self._times = words, times

    def hold(self, is_held: bool) -> None:
        """Pass nothing on, in either direction, as a network that loses every packet; or let it go on.

        Connections stay open, and new ones are accepted: neither side is told.
        """
        (self._flows.clear if is_held else self._flows.set)()

    def slow_down(self, seconds: float) -> None:
        """Wait before each piece that is passed on; 0 for no wait."""
        self._delay = seconds

    def cut_all(self) -> None:
        """End every open connection; new ones are passed on."""
        for each in tuple(self._open):
            self.cuts += 1
            self._end(each)

    def close(self) -> None:
        """Stop listening and end every connection."""
        self._closed.set()
        self._flows.set()
        with suppress(OSError):  # wakes the thread that accepts
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in tuple(self._open):
            self._end(each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        """Connect a client to the server; end its connection where the server does not listen."""
        self._open.add(client)
        self._flows.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            self._end(client)
            return
        self._open.add(server)
        if self._closed.is_set():
            self._end(client)
            self._end(server)
            return
        doomed = threading.Event()
        threading.Thread(target=self._pass_requests, args=(client, server, doomed), daemon=True).start()
        self._pass_answers(server, client, doomed)

    def _pass_requests(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(PIECE_BYTES):
                self.sent.append(data)
                with self._lock:
                    if self._times and any(re.search(word, data, re.DOTALL) for word in self._words):
                        self._times -= 1
                        doomed.set()
                self._wait()
                server.sendall(data)
        self._end(server)

    def _pass_answers(self, server: socket.socket, client: socket.socket, doomed: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(PIECE_BYTES):
                if doomed.is_set():
                    self.cuts += 1
                    self._end(server)
                    break
                self._wait()
                client.sendall(data)
        self._end(client)

    def _wait(self) -> None:
        self._flows.wait()
        if self._delay:
            self._closed.wait(self._delay)

    def _end(self, each: socket.socket) -> None:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
        self._open.discard(each)
