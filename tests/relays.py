"""A TCP relay between a client and a server, which cuts connections where a test wants it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class Relay:
    """Passes connections on to `port` of this machine. `cuts` counts the connections that it has cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.cuts = 0
        self._word: bytes | None = None
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_answer_to(self, word: bytes) -> None:
        """Cut the connection when the server answers the next request with this word: the answer is lost."""
        self._word = word

    def close(self) -> None:
        """Stop listening and end every connection."""
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
                server = socket.create_connection(("127.0.0.1", self._port))
                self._open |= {client, server}
                doomed = threading.Event()
                threading.Thread(target=self._pass_requests, args=(client, server, doomed), daemon=True).start()
                threading.Thread(target=self._pass_answers, args=(server, client, doomed), daemon=True).start()

    def _pass_requests(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                with self._lock:
                    if self._word is not None and self._word in data:
                        self._word = None
                        doomed.set()
                server.sendall(data)
        self._end(server)

    def _pass_answers(self, server: socket.socket, client: socket.socket, doomed: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if doomed.is_set():
                    self.cuts += 1
                    self._end(server)
                    break
                client.sendall(data)
        self._end(client)

    def _end(self, each: socket.socket) -> None:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
        self._open.discard(each)
