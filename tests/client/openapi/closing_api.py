"""An HTTP API on a socket that keeps its connections and closes them when its script says so."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.waiting import BOUND

ANSWERS = {
    "answer": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "answer together": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "silence": b"",
    "part of the head": b"HTTP/1.1 200 OK\r\nContent-",
    "part of the body": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart",
    "close": b"",
    "reset": b"",
}
"""What the server sends for each step. For `answer together` it waits until two requests have this step."""

KEEPING = {"answer", "answer together", "silence"}
"""The steps after which the connection stays open."""

RESET = struct.pack("ii", 1, 0)
"""The option SO_LINGER with which closing a socket sends a reset."""


@dataclass
class ClosingApi:
    """The server while it runs. `seen` has the number of the connection and the method of each request."""

    url: str
    scripts: Sequence[Sequence[str]]
    tls: ssl.SSLContext | None
    seen: list[tuple[int, str]] = field(default_factory=list)
    together: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))

    def serve(self, number: int, connection: socket.socket) -> None:
        """Answer the requests of one connection as its script says."""
        with suppress(OSError), self._secure(connection) as stream:
            for step in self.scripts[number] if number < len(self.scripts) else ():
                method = read_request(stream)
                if not method:
                    return
                self.seen.append((number, method))
                if step == "answer together":
                    self.together.wait(BOUND)
                stream.sendall(ANSWERS[step])
                if step == "reset":
                    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                if step not in KEEPING:
                    return
            read_request(stream)  # keeps the connection until the client closes it

    def _secure(self, connection: socket.socket) -> socket.socket:
        return connection if self.tls is None else self.tls.wrap_socket(connection, server_side=True)


def read_request(connection: socket.socket) -> str:
    """Read a request with its body, if any; return its method, "" at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return ""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while len(body) < int(lengths[0] if lengths else 0):
        body += connection.recv(65536)
    return head.split(b" ")[0].decode()


@contextmanager
def closing_api(*scripts: Sequence[str], tls: ssl.SSLContext | None = None) -> Iterator[ClosingApi]:
    """Run the server. Each script has the steps of one connection, one step for each request."""
    scheme = "http" if tls is None else "https"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        api = ClosingApi(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/", scripts, tls)

        def accept() -> None:
            with suppress(OSError):
                for number in range(100):
                    connection, _ = listener.accept()
                    threading.Thread(target=api.serve, args=(number, connection), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield api
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # ends `accept`
            thread.join(BOUND)
